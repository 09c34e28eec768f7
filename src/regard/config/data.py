"""Data sections that `regard.data` reads by."""

from dataclasses import dataclass
from typing import Annotated, Literal

from regard.config.schema import Count, NotNegative, Positive, Range, Share, Whole


@dataclass(frozen=True)
class Files:
    """Where the examples are."""

    path: str | None = None
    """The folder that files are looked for in."""
    train: str | None = None
    valid: str | None = None
    """Without a file for it, validation is held out from the training examples."""
    test: str | None = None
    """Without a file for it, the run is measured on the validation examples."""
    held_out: Annotated[float, Range(above=0, at_most=0.5)] = 0.1
    """Share of the training examples for validation, where it has no file."""


@dataclass(frozen=True)
class PairDataConfig:
    """Where the sentence pairs are: two files of a user's, or a corpus known by name."""

    corpus: Literal["files", "picturebook", "multi30k", "tatoeba-eng-fra"] = "files"
    path: str | None = None
    """The folder a named corpus lies in; without it, the cache. Files are looked for in it too."""
    source: str | None = None
    target: str | None = None
    """Line-aligned files; or one table (.tsv, .csv, .jsonl) as the source, with both columns named."""
    valid_source: str | None = None
    valid_target: str | None = None
    test_source: str | None = None
    test_target: str | None = None
    """Without files for them, validation and test are held out from the training pairs."""
    source_column: str | None = None
    target_column: str | None = None
    source_language: str = "de"
    target_language: str = "en"
    form: Literal["raw", "tok"] = "raw"
    """multi30k: sentences as written, or lower-cased and tokenized as the literature scores them."""
    held_out: Count = 1000
    """Pairs for validation and as many for the test, where they are held out; at most a tenth in all."""
    pairs: Whole = 0
    """At most so many training pairs; 0 means all."""
    max_length: Count = 200
    """Pairs with more words than this on a side are dropped, and counted."""
    ratio: Annotated[float, Range(at_least=1)] = 9.0
    """Pairs in which one side has so many times the words of the other are dropped, and counted."""

    def __post_init__(self) -> None:
        if self.corpus == "files" and self.source is None:
            raise ValueError("source: this key is missing; it is the file with the sentences to translate from")
        if self.corpus != "files" and (self.source or self.target):
            raise ValueError(f'source: files are read with corpus = "files", not with {self.corpus}')
        for name in ("valid", "test"):
            if getattr(self, f"{name}_target") and not getattr(self, f"{name}_source"):
                raise ValueError(f"{name}_source: this key is missing; {name}_target is given")


@dataclass(frozen=True)
class ImageDataConfig:
    """Images with a label each: idx files as MNIST's, or a folder with a folder for each label."""

    path: str | None = None
    """The folder: idx files in it, or train/LABEL/..., valid/LABEL/..., test/LABEL/..., or LABEL/..."""
    held_out: Annotated[float, Range(above=0, at_most=0.5)] = 0.05
    """Share of the training images for validation, where it has no images of its own."""
    shift: Share = 0.0
    """Images are moved by chance in each epoch, by up to this share of their size, ..."""
    rotate: Annotated[float, Range(at_least=0, at_most=180)] = 0.0
    """... turned by up to so many degrees, ..."""
    crop: Share = 0.0
    """... cut by up to this share of their size and drawn out again, or shrunk by as much, ..."""
    flip: bool = False
    """... and half of them mirrored."""


@dataclass(frozen=True)
class CurveDataConfig:
    """Points to regress on: y = 2 sin(x) + x^0.8 + noise, or two columns of a file."""

    path: str | None = None
    """A text file with x and y in each line; without it the textbook's curve is drawn."""
    samples: Annotated[int, Range(at_least=2)] = 50
    low: NotNegative = 0.0
    high: Positive = 5.0
    noise: NotNegative = 0.5

    def __post_init__(self) -> None:
        if self.high <= self.low:
            raise ValueError(f"high: {self.high:g} must be above low, which is {self.low:g}")
