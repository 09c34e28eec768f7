"""Texts as examples of a BERT or a GPT that labels, and the model's outputs on them."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.examples import Example, TextBatch, all_batches
from regard.engine import run
from regard.tasks.metrics_log import PhaseProgress
from regard.tokenization import BertTokenizer, GptTaskTokenizer

Texts = Sequence[str | tuple[str, str]]
"""Texts, or pairs of them."""


def split_pairs(texts: Texts) -> tuple[list[str], list[str | None]]:
    """First and second texts; None for a single text."""
    first = [text if isinstance(text, str) else text[0] for text in texts]
    return first, [None if isinstance(text, str) else text[1] for text in texts]


def encode_texts(
    tokenizer: BertTokenizer | GptTaskTokenizer,
    first: Sequence[str],
    second: Sequence[str | None],
    max_length: int,
    labels: Sequence[int] = (),
) -> tuple[list[Example], int]:
    """Texts or pairs of texts as examples: [CLS] A [SEP], or [CLS] A [SEP] B [SEP].

    For a GPT: [START] A [EXTRACT], or [START] A [DELIM] B [EXTRACT], with the same number of special tokens.

    Args:
        tokenizer: The model's.
        first: The first or only text of each example.
        second: The second text of each example, or None.
        max_length: Most tokens of an example; longer ones are truncated by `truncate_pair`.
        labels: The label of each example, by number.

    Returns:
        The examples, and how many of them were truncated.
    """
    first_ids = tokenizer.encode_batch(first)
    second_ids = tokenizer.encode_batch([text or "" for text in second])
    examples, truncated = [], 0
    for number, (a, b) in enumerate(zip(first_ids, second_ids, strict=True)):
        pair = second[number] is not None
        max_pieces = max_length - (3 if pair else 2)
        truncated += len(a) + len(b) > max_pieces
        a, b = truncate_pair(a, b, max_pieces)
        ids = np.array(tokenizer.with_special_tokens(a, b if pair else None), np.int64)
        label = (labels[number],) if labels else ()
        examples.append(Example(number, ids, len(a) + 2 if pair else len(ids), label))
    return examples, truncated


def truncate_pair(first: list[int], second: list[int], max_length: int) -> tuple[list[int], list[int]]:
    """Cut the ends of two texts so that they have `max_length` tokens in sum; the longer one is cut first."""
    if len(first) + len(second) <= max_length:
        return first, second
    half = max_length // 2
    if len(second) <= half:
        return first[: max_length - len(second)], second
    if len(first) <= max_length - half:
        return first, second[: max_length - len(first)]
    return first[: max_length - half], second[:half]


def batched_outputs(
    model: nn.Module, examples: Sequence[Example], tokens: int = 8192, progress: PhaseProgress | None = None
) -> Iterator[tuple[TextBatch, Tensor]]:
    """The model's outputs for each batch of examples, shortest first; `batch.sentences` has their numbers."""
    for batch in batches_for(model, examples, tokens, progress):
        with torch.no_grad():
            yield batch, run(model, batch.ids, batch.segments).float()


def batches_for(
    model: nn.Module, examples: Sequence[Example], tokens: int = 8192, progress: PhaseProgress | None = None
) -> Iterator[TextBatch]:
    """Every example once, shortest first, on the model's device; `progress` counts those that are done."""
    device = next(model.parameters()).device
    progress = progress or PhaseProgress()
    progress.expect(len(examples), "examples")
    for batch in all_batches(examples, tokens):
        yield batch.to(device)
        progress.add(batch.rows)
