"""Data sections of recipes that several tasks, or `regard.data`, use."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from regard.config.schema import Count, NotNegative, Positive, Range, Share, Whole


@dataclass(frozen=True)
class FilesDataConfig:
    """Files with the examples."""

    path: str | None = None
    """Folder that relative file names refer to."""
    train: str | None = None
    """Training file."""
    valid: str | None = None
    """Validation file; default: held out from the training examples."""
    test: str | None = None
    """Test file; default: scores are computed on the validation examples."""
    held_out: Annotated[float, Range(above=0, at_most=0.5)] = 0.1
    """Share of the training examples held out for validation if there is no validation file."""


@dataclass(frozen=True)
class PairDataConfig:
    """Sentence pairs: from files, or a named corpus."""

    corpus: Literal["files", "picturebook", "multi30k", "tatoeba-eng-fra"] = "files"
    """Your own files, or a corpus by name."""
    path: str | None = None
    """Folder of a named corpus (default: the cache), or that relative file names refer to."""
    source: str | None = None
    """Source sentences, one per line; or one table (.tsv, .csv, .jsonl) with both columns named."""
    target: str | None = None
    """Target sentences, line by line."""
    valid_source: str | None = None
    """Validation source; default: held out from the training pairs."""
    valid_target: str | None = None
    """Validation target."""
    test_source: str | None = None
    """Test source; default: held out from the training pairs."""
    test_target: str | None = None
    """Test target."""
    source_column: str | None = None
    """Column of a table with the source sentences."""
    target_column: str | None = None
    """Column of a table with the target sentences."""
    source_language: str = ""
    """Source language code; default: the ending of the source file where it has two letters, as in mine.de,
    de for a named corpus."""
    target_language: str = ""
    """Target language code; default: the ending of the target file, en for a named corpus."""
    form: Literal["raw", "tok"] = "raw"
    """multi30k: raw sentences, or lowercased and tokenized as in the literature."""
    held_out: Count = 1000
    """Pairs held out for validation, and as many for the test; together at most a tenth of the pairs."""
    pairs: Whole = 0
    """Maximum number of training pairs; 0: all."""
    max_length: Count = 200
    """Drop pairs with more words than this on one side."""
    ratio: Annotated[float, Range(at_least=1)] = 9.0
    """Drop pairs whose length ratio in words is above this."""

    def __post_init__(self) -> None:
        if self.corpus == "files" and self.source is None:
            raise ValueError("source: this key is missing; it is the file with the source sentences")
        if self.corpus != "files" and (self.source or self.target):
            raise ValueError(f'source: files are read with corpus = "files", not with {self.corpus}')
        for name in ("valid", "test"):
            if getattr(self, f"{name}_target") and not getattr(self, f"{name}_source"):
                raise ValueError(f"{name}_source: this key is missing; {name}_target is given")
        named = self.corpus != "files"
        for key, code in (
            ("source_language", "de" if named else language_ending(self.source)),
            ("target_language", "en" if named else language_ending(self.target)),
        ):
            object.__setattr__(self, key, getattr(self, key) or code)

    @property
    def direction(self) -> tuple[str, str]:
        """The language codes, for people; "source" and "target" where they are not known."""
        return self.source_language or "source", self.target_language or "target"


def language_ending(file: str | None) -> str:
    """The ending of a file name with two letters, as in corpus.de or corpus.de.gz; "" if it has another one."""
    ending = re.search(r"\.([a-z]{2})(\.gz)?$", file or "")
    return ending[1] if ending and ending[1] != "gz" else ""


@dataclass(frozen=True)
class ImageDataConfig:
    """Labelled images: IDX files (as of MNIST), or one folder per label."""

    path: str | None = None
    """Folder with IDX files, with train/LABEL/..., valid/LABEL/... and test/LABEL/..., or with LABEL/..."""
    held_out: Annotated[float, Range(above=0, at_most=0.5)] = 0.05
    """Share of the training images held out for validation if there are no validation images."""
    shift: Share = 0.0
    """Augmentation: random shift by up to this share of the image size."""
    rotate: Annotated[float, Range(at_least=0, at_most=180)] = 0.0
    """Augmentation: random rotation by up to so many degrees."""
    crop: Share = 0.0
    """Augmentation: random zoom in or out by up to this share of the image size."""
    flip: bool = False
    """Augmentation: horizontal flip of half of the images."""


@dataclass(frozen=True)
class CurveDataConfig:
    """Regression points: sampled from y = 2 sin(x) + x^0.8 + noise, or two columns of a file."""

    path: str | None = None
    """Text file with x and y on each line; default: points sampled from the textbook's curve."""
    samples: Annotated[int, Range(at_least=2)] = 50
    """Number of sampled points."""
    low: NotNegative = 0.0
    """Lower bound of x."""
    high: Positive = 5.0
    """Upper bound of x."""
    noise: NotNegative = 0.5
    """Standard deviation of the noise."""

    def __post_init__(self) -> None:
        if self.high <= self.low:
            raise ValueError(f"high: {self.high:g} must be above low, which is {self.low:g}")
