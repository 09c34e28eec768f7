"""Tagging: a label for each word, such as the names of people and places."""

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
from regard.metrics import entity_spans, score_entities
from regard.nn.build import Head
from regard.tasks.encoder import training as text_training
from regard.tasks.encoder.examples import batches_for
from regard.tasks.metrics_log import PhaseProgress, ProgressListener
from regard.tasks.results import TaskRun, TaskScores
from regard.tasks.tagging.config import TaggingRecipe
from regard.tokenization import BertTokenizer, Encoding
from regard.training.objectives import TagObjective


def train(
    recipe: TaggingRecipe, out: Path, listener: ProgressListener | None = None, *, resume: bool = False
) -> TaskRun | None:
    """Train into the folder `out`, and measure on the test file or on the validation sentences."""
    return text_training.train(recipe, TaggingTask, out, listener, resume=resume)


class TaggingTask:
    """Reads, encodes and measures tagged sentences; a `TextTask`."""

    head: Head = "tags"
    objective = TagObjective

    def __init__(self, recipe: TaggingRecipe) -> None:
        self.data = recipe.data
        self.max_length = min(recipe.data.max_length, recipe.model.max_length)
        self.labels: list[str] = []
        self.splits: dict[str, list[ConllSentence]] = {}

    def read_split(self, split: str, path: Path) -> None:
        self.splits[split] = list(read_conll(path))
        self.labels = self.labels or distinct_tags(self.splits[split], path)
        check_tags(self.splits[split], self.labels, path)

    def split_key(self, item: ConllSentence) -> str:
        return " ".join(item.words)

    def data_summary(self) -> Iterator[str]:
        sizes = ", ".join(f"{len(sentences):,} for {split}" for split, sentences in self.splits.items())
        yield f"sentences: {sizes}"
        train = self.splits["train"]
        counts = Counter(kind for sentence in train for *_, kind in entity_spans(sentence.tags))
        names = ", ".join(f"{count:,} x {kind}" for kind, count in counts.most_common())
        words = sum(len(sentence.tags) for sentence in train)
        outside = sum(tag == "O" for sentence in train for tag in sentence.tags)
        yield f"names: {names}; {outside / words:.1%} of the words are outside of any"

    def vocabulary_texts(self) -> Iterable[str]:
        return (" ".join(sentence.words) for sentence in self.splits["train"])

    def encode(self, tokenizer: BertTokenizer, log: Callable[[str], object]) -> FixedExamples:
        segments = self.segments(tokenizer, "train")
        extra = len(segments) - len({segment.sentence for segment in segments})
        if extra:
            log(
                f"sentences longer than {self.max_length} tokens are split into segments: "
                f"{extra:,} more segments than sentences"
            )
        return FixedExamples([segment.example for segment in segments])

    def segments(self, tokenizer: BertTokenizer, split: str) -> list["WordSegment"]:
        sentences = self.splits[split]
        numbers = {tag: number for number, tag in enumerate(self.labels)}
        return encode_words(
            tokenizer,
            [sentence.words for sentence in sentences],
            self.max_length,
            [[numbers[tag] for tag in sentence.tags] for sentence in sentences],
        )

    def measure(
        self, model: nn.Module, tokenizer: BertTokenizer, split: str, progress: PhaseProgress | None = None
    ) -> TaskScores:
        sentences, segments = self.splits[split], self.segments(tokenizer, split)
        lengths = [len(sentence.words) for sentence in sentences]
        probabilities = word_probabilities(model, segments, lengths, progress)
        predictions = [[self.labels[number] for number in rows.argmax(1)] for rows in probabilities]
        targets = [[self.labels.index(tag) for tag in sentence.tags] for sentence in sentences]
        target_probabilities = np.concatenate(
            [rows[np.arange(len(tags)), tags] for rows, tags in zip(probabilities, targets, strict=True)]
        )
        scores = score_entities([sentence.tags for sentence in sentences], predictions)
        loss = float(-np.log(np.maximum(target_probabilities, 1e-12)).mean())
        rows = [asdict(name_scores) for name_scores in scores.by_type]
        return TaskScores({**scores.headline(), "loss": loss}, len(sentences), rows)


@dataclass(frozen=True)
class WordSegment:
    """Words of a sentence that fit into one example."""

    sentence: int
    words: list[int]
    """Their numbers in the sentence."""
    positions: list[int]
    """The position of the first piece of each word in the example."""
    example: Example


def encode_words(
    tokenizer: BertTokenizer,
    sentences: Sequence[Sequence[str]],
    max_length: int,
    tags: Sequence[Sequence[int]] | None = None,
) -> list[WordSegment]:
    """Sentences of words as examples with the tag at the first piece of each word; long ones are split."""
    segments: list[WordSegment] = []
    for number, pieces in enumerate(tokenizer.encode_pretokenized(sentences)):
        for first, last in segment_bounds(pieces, max_length - 2):
            ids = np.array(tokenizer.with_special_tokens(pieces.ids[first:last]), np.int64)
            starts = [
                index
                for index in range(first, last)
                if index == 0 or pieces.word_ids[index] != pieces.word_ids[index - 1]
            ]
            words = [pieces.word_ids[index] for index in starts]
            positions = [index - first + 1 for index in starts]
            marks = np.full(len(ids), IGNORE_INDEX, np.int64)
            marks[positions] = [tags[number][word] for word in words] if tags is not None else 0
            example = Example(len(segments), ids, len(ids), (), marks)
            segments.append(WordSegment(number, words, positions, example))
    return segments


def segment_bounds(pieces: Encoding, max_pieces: int) -> Iterator[tuple[int, int]]:
    """First and last index (exclusive) of segments of at most `max_pieces`, cut between words if possible."""
    first = 0
    while first < len(pieces.ids):
        last = min(first + max_pieces, len(pieces.ids))
        border = last
        while first < border < len(pieces.ids) and pieces.word_ids[border] == pieces.word_ids[border - 1]:
            border -= 1
        last = border if border > first else last
        yield first, last
        first = last


@torch.no_grad()
def word_probabilities(
    model: nn.Module,
    segments: Sequence[WordSegment],
    lengths: Sequence[int],
    progress: PhaseProgress | None = None,
) -> list[np.ndarray]:
    """The probability of each tag for each word: (words, tags) for each sentence.

    A word without any token, such as a lone control character, gets tag 0, which is outside of any name.
    """
    probabilities = [np.ones((length, 1)) for length in lengths]
    for batch in batches_for(model, [segment.example for segment in segments], progress=progress):
        logits = run_tokens(model, batch.ids, batch.segments).values
        rows = logits.float().softmax(-1).cpu().numpy()
        if probabilities[0].shape[1] != rows.shape[-1]:
            probabilities = [np.eye(1, rows.shape[-1]).repeat(length, 0) for length in lengths]
        for first, number in zip(batch.ids.offsets.tolist(), batch.sentences, strict=False):
            segment = segments[number]
            positions = first + np.array(segment.positions, np.int64)
            probabilities[segment.sentence][segment.words] = rows[positions]
    return probabilities


@dataclass(frozen=True)
class NamedEntity:
    """A name in a sentence; its probability is that of its least probable word."""

    name: str
    kind: str
    first: int
    """The number of its first word, from 0."""
    last: int
    probability: float


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence with a tag and its probability for each word, and the names that the tags form."""

    words: list[str]
    tags: list[str]
    probabilities: list[float]
    names: list[NamedEntity]


def tagged_sentence(words: Sequence[str], labels: Sequence[str], probabilities: np.ndarray) -> TaggedSentence:
    """The prediction from the probabilities of a sentence, (words, tags)."""
    tags = [labels[number] for number in probabilities.argmax(1)] if len(words) else []
    highest = [float(value) for value in probabilities.max(1)] if len(words) else []
    names = [
        NamedEntity(" ".join(words[first:after]), kind, first, after - 1, min(highest[first:after]))
        for first, after, kind in entity_spans(tags)
    ]
    return TaggedSentence(list(words), tags, highest, names)
