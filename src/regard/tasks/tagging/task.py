"""A tag for each word: names of people, places and whatever else the training text marks."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.data.conll import ConllSentence, check_tags, distinct_tags, read_conll
from regard.data.examples import IGNORE_INDEX, Example, FixedExamples
from regard.engine.forward import run_tokens
from regard.metrics import entities, score_entities
from regard.nn.build import Head
from regard.tasks.encoder import training as texts
from regard.tasks.encoder.training import TaskRun, TaskScores, batches_for
from regard.tasks.metrics_log import ProgressListener
from regard.tasks.tagging.config import TaggingRecipe
from regard.tokenization import BertTokenizer, Pieces
from regard.training.objectives import TagObjective


def train(
    recipe: TaggingRecipe, out: Path, listener: ProgressListener | None = None, *, resume: bool = False
) -> TaskRun | None:
    """Train into the folder `out`, and measure on the test file or on the validation sentences."""
    return texts.train(recipe, Tagging, out, listener, resume=resume)


class Tagging:
    """The work of a tagging recipe."""

    head: Head = "tags"
    objective = TagObjective

    def __init__(self, recipe: TaggingRecipe) -> None:
        self.data = recipe.data
        self.max_length = min(recipe.data.max_length, recipe.model.max_length)
        self.labels: list[str] = []
        self.splits: dict[str, list[ConllSentence]] = {}

    def open(self, split: str, path: Path) -> None:
        self.splits[split] = list(read_conll(path))
        self.labels = self.labels or distinct_tags(self.splits[split], path)
        check_tags(self.splits[split], self.labels, path)

    def key(self, item: ConllSentence) -> str:
        return " ".join(item.words)

    def tell(self) -> Iterator[str]:
        told = ", ".join(f"{len(sentences):,} for {split}" for split, sentences in self.splits.items())
        yield f"sentences: {told}"
        counted = Counter(kind for each in self.splits["train"] for *_, kind in entities(each.tags))
        names = ", ".join(f"{count:,} x {kind}" for kind, count in counted.most_common())
        words = sum(len(each.tags) for each in self.splits["train"])
        outside = sum(tag == "O" for each in self.splits["train"] for tag in each.tags)
        yield f"names: {names}; {outside / words:.1%} of the words are outside of any"

    def texts(self) -> Iterable[str]:
        return (" ".join(each.words) for each in self.splits["train"])

    def encode(self, tokenizer: BertTokenizer, tell: Callable[[str], object]) -> FixedExamples:
        stretches = self.stretches(tokenizer, "train")
        more = len(stretches) - len({each.sentence for each in stretches})
        if more:
            tell(
                f"sentences longer than {self.max_length} tokens are read in parts, "
                f"{more:,} more than sentences"
            )
        return FixedExamples([each.example for each in stretches])

    def stretches(self, tokenizer: BertTokenizer, split: str) -> list["Stretch"]:
        sentences = self.splits[split]
        places = {tag: number for number, tag in enumerate(self.labels)}
        return encode_words(
            tokenizer,
            [each.words for each in sentences],
            self.max_length,
            [[places[tag] for tag in each.tags] for each in sentences],
        )

    def measure(self, model: nn.Module, tokenizer: BertTokenizer, split: str) -> TaskScores:
        sentences, stretches = self.splits[split], self.stretches(tokenizer, split)
        shares = word_shares(model, stretches, [len(each.words) for each in sentences])
        found = [[self.labels[place] for place in each.argmax(1)] for each in shares]
        gold = [[self.labels.index(tag) for tag in each.tags] for each in sentences]
        right = np.concatenate(
            [rows[np.arange(len(tags)), tags] for rows, tags in zip(shares, gold, strict=True)]
        )
        scores = score_entities([each.tags for each in sentences], found)
        loss = float(-np.log(np.maximum(right, 1e-12)).mean())
        return TaskScores(
            {**scores.numbers(), "loss": loss}, len(sentences), [asdict(each) for each in scores.by_name]
        )


@dataclass(frozen=True)
class Stretch:
    """Words of a sentence that fit into one text: which, and where the first piece of each stands."""

    sentence: int
    words: list[int]
    places: list[int]
    example: Example


def encode_words(
    tokenizer: BertTokenizer,
    sentences: Sequence[Sequence[str]],
    max_length: int,
    tags: Sequence[Sequence[int]] | None = None,
) -> list[Stretch]:
    """Sentences of words as texts, a mark on the first piece of each word; long ones in several stretches."""
    found: list[Stretch] = []
    for number, pieces in enumerate(tokenizer.pieces_of_words(sentences)):
        for first, last in cuts(pieces, max_length - 2):
            ids = np.array(tokenizer.joined(pieces.ids[first:last]), np.int64)
            starts = [
                place
                for place in range(first, last)
                if place == 0 or pieces.words[place] != pieces.words[place - 1]
            ]
            words = [pieces.words[place] for place in starts]
            places = [place - first + 1 for place in starts]
            marks = np.full(len(ids), IGNORE_INDEX, np.int64)
            marks[places] = [tags[number][word] for word in words] if tags is not None else 0
            example = Example(len(found), ids, len(ids), (), marks)
            found.append(Stretch(number, words, places, example))
    return found


def cuts(pieces: Pieces, room: int) -> Iterator[tuple[int, int]]:
    """Where a sentence is cut so that each part has room: between words, unless one has none by itself."""
    first = 0
    while first < len(pieces.ids):
        last = min(first + room, len(pieces.ids))
        border = last
        while first < border < len(pieces.ids) and pieces.words[border] == pieces.words[border - 1]:
            border -= 1
        last = border if border > first else last
        yield first, last
        first = last


@torch.no_grad()
def word_shares(model: nn.Module, stretches: Sequence[Stretch], lengths: Sequence[int]) -> list[np.ndarray]:
    """The share of each tag for each word of each sentence: (words, tags) a sentence.

    A word of which nothing is left as a token, such as a lone control character, is outside: tag 0.
    """
    found = [np.ones((length, 1)) for length in lengths]
    for batch in batches_for(model, [each.example for each in stretches]):
        scores = run_tokens(model, batch.ids, batch.segments).values
        shares = scores.float().softmax(-1).cpu().numpy()
        if found[0].shape[1] != shares.shape[-1]:
            found = [np.eye(1, shares.shape[-1]).repeat(length, 0) for length in lengths]
        for first, number in zip(batch.ids.offsets.tolist(), batch.sentences, strict=False):
            stretch = stretches[number]
            found[stretch.sentence][stretch.words] = shares[first + np.array(stretch.places, np.int64)]
    return found


@dataclass(frozen=True)
class NamedEntity:
    """A name found in a sentence: its words, its kind, and how sure its least sure word is."""

    name: str
    kind: str
    first: int
    """The number of its first word, from 0."""
    last: int
    probability: float


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence with a tag and its share for each word, and the names they make."""

    words: list[str]
    tags: list[str]
    probabilities: list[float]
    names: list[NamedEntity]


def tagged(words: Sequence[str], labels: Sequence[str], shares: np.ndarray) -> TaggedSentence:
    tags = [labels[place] for place in shares.argmax(1)] if len(words) else []
    sure = [float(each) for each in shares.max(1)] if len(words) else []
    names = [
        NamedEntity(" ".join(words[first:after]), kind, first, after - 1, min(sure[first:after]))
        for first, after, kind in entities(tags)
    ]
    return TaggedSentence(list(words), tags, sure, names)
