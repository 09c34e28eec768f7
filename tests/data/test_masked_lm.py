"""Pre-training examples: BERT's masking fractions, and spans that never cross document boundaries."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.examples import IGNORE_INDEX, TextBatches
from regard.data.masked_lm import (
    FOLLOWS,
    FOREIGN,
    DocumentFile,
    MaskedLmExamples,
    MaskingSymbols,
    TokenMasking,
    read_sentences,
    spans,
)
from regard.data.text_files import CorpusError
from regard.data.token_store import open_or_build

VOCABULARY = 1000
SYMBOLS = MaskingSymbols(2, 3, 4, np.arange(5, VOCABULARY), np.arange(VOCABULARY) % 3 == 0)


Made = Callable[..., MaskedLmExamples]


@pytest.fixture
def stored(tmp_path: Path) -> Made:
    """MaskedLmExamples of sentences of ids, laid into a store whose parts have so many sentences."""

    def made(
        documents: list[list[list[int]]],
        max_length: int = 64,
        part: int = 10_000,
        masking: TokenMasking | None = None,
        **more,
    ) -> MaskedLmExamples:
        def encode(texts: list[str]) -> list[list[int]]:
            return [[int(each) for each in text.split()] for text in texts]

        pairs = [
            (" ".join(map(str, sentence)), str(number))
            for number, document in enumerate(documents)
            for sentence in document
        ]
        store = open_or_build(tmp_path / "store", lambda: pairs, encode, encode, (VOCABULARY, 2**32), part)
        return MaskedLmExamples(store, max_length, SYMBOLS, masking or TokenMasking(), **more)

    return made


def corpus(documents: int, sentences: int = 12) -> list[list[list[int]]]:
    """MaskedLmExamples whose ids tell where they come from: document d has ids 5 + 10 d to 14 + 10 d."""
    rng = np.random.default_rng(0)
    return [
        [(5 + number * 10 + rng.integers(0, 10, rng.integers(3, 12))).tolist() for _ in range(sentences)]
        for number in range(documents)
    ]


@pytest.mark.parametrize("whole_words", [False, True])
def test_a_million_tokens_are_masked_in_berts_fractions(whole_words: bool) -> None:
    rng = np.random.default_rng(1)
    ids = rng.integers(5, VOCABULARY, 1_000_000)
    maskable = np.ones(len(ids), bool)
    masked_ids, labels = TokenMasking(whole_words=whole_words)(ids, maskable, SYMBOLS, rng)
    chosen = labels != IGNORE_INDEX
    assert chosen.mean() == pytest.approx(0.15, abs=0.002)
    assert (labels[chosen] == ids[chosen]).all()
    assert (masked_ids[~chosen] == ids[~chosen]).all()
    masked = masked_ids[chosen] == SYMBOLS.mask
    unchanged = masked_ids[chosen] == ids[chosen]
    assert masked.mean() == pytest.approx(0.80, abs=0.002)
    assert unchanged.mean() == pytest.approx(0.10, abs=0.002 + 0.1 / VOCABULARY)
    assert (~masked & ~unchanged).mean() == pytest.approx(0.10, abs=0.002 + 0.1 / VOCABULARY)
    assert np.isin(
        masked_ids[chosen & (masked_ids != ids) & (masked_ids != SYMBOLS.mask)], SYMBOLS.ordinary
    ).all()


def test_whole_words_are_masked_whole() -> None:
    rng = np.random.default_rng(1)
    ids = np.array([2, *rng.integers(5, VOCABULARY, 5000), 3])
    maskable = (ids != 2) & (ids != 3)
    _, labels = TokenMasking(whole_words=True)(ids, maskable, SYMBOLS, rng)
    chosen = labels != IGNORE_INDEX
    continues = SYMBOLS.continues[ids] & maskable
    continues[1] = False  # nothing stands before it that it could go on from
    assert (chosen[1:] == chosen[:-1])[continues[1:]].all()
    assert not chosen[[0, -1]].any()


def test_half_of_the_second_parts_follow_and_the_others_are_of_another_document(stored: Made) -> None:
    # Nothing is masked, so that ids show their document.
    documents = stored(corpus(90), masking=TokenMasking(probability=0.0))
    rng = np.random.default_rng(2)
    examples = [each for _ in range(40) for each in documents.load(np.arange(len(documents)), rng)]
    pairs = [each for each in examples if each.labels[0] != IGNORE_INDEX]
    assert len(pairs) > 7_000
    assert np.mean([each.labels[0] == FOLLOWS for each in pairs]) == pytest.approx(0.5, abs=0.02)
    for each in pairs:
        first, second = (
            (part[part > 4] - 5) // 10 for part in (each.ids[: each.second], each.ids[each.second :])
        )
        assert len(set(first)) == len(set(second)) == 1
        assert (first[0] == second[0]) == (each.labels[0] == FOLLOWS)
        assert (each.ids[0], each.ids[each.second - 1], each.ids[-1]) == (2, 3, 3)
        assert len(each.ids) <= 64


def test_second_parts_that_follow_are_real_neighbours(stored: Made) -> None:
    documents = stored([[[10, 11], [12], [13, 14]], [[90], [91]]], masking=TokenMasking(probability=0.0))
    rng = np.random.default_rng(3)
    masked_ids = {tuple(documents.example(0, rng).ids.tolist()) for _ in range(60)}
    following = {ids for ids in masked_ids if max(ids) < 90}
    assert following == {(2, 10, 11, 3, 12, 13, 14, 3), (2, 10, 11, 12, 3, 13, 14, 3)}


def test_what_does_not_follow_differs_in_nothing_but_what_it_says(stored: Made) -> None:
    """Captions that nothing follows are never second parts, and the length of a text tells nothing."""
    captions = [[[900 + number % 50] * 4] for number in range(300)]
    documents = stored([*corpus(60, 40), *captions], masking=TokenMasking(probability=0.0))
    rng = np.random.default_rng(4)
    examples = [each for _ in range(20) for each in documents.load(documents.pairable, rng)]
    lengths = {
        kind: [len(each.ids) for each in examples if each.labels == (kind,)] for kind in (FOLLOWS, FOREIGN)
    }
    assert max(max(each.ids) for each in examples) < 900
    assert np.mean(lengths[FOLLOWS]) == pytest.approx(np.mean(lengths[FOREIGN]), rel=0.05)
    told_by_length = max(
        np.mean([each <= border for each in lengths[FOREIGN]])
        - np.mean([each <= border for each in lengths[FOLLOWS]])
        for border in range(64)
    )
    assert abs(told_by_length) < 0.15  # by how much more than chance one is right who goes by length, twice


def test_a_sentence_alone_is_not_maskable_what_follows(stored: Made) -> None:
    documents = stored([[[10, 11]], [[12]]])
    assert [each.labels for each in documents.load(np.arange(2), np.random.default_rng(0))] == [
        (IGNORE_INDEX,),
        (IGNORE_INDEX,),
    ]
    assert not len(documents.pairable)


def test_spans_hold_everything_once_and_fit(stored: Made) -> None:
    made = [[[5] * 5, [6] * 30, [7] * 4, [], [8] * 6], [[9] * 2]]
    documents = stored(made, 15, masking=TokenMasking(probability=0.0), next_sentence=False)
    texts = [
        each.ids[1:-1].tolist() for each in documents.load(np.arange(len(documents)), np.random.default_rng(0))
    ]
    assert all(len(each) <= 12 for each in texts)
    assert [one for each in texts for one in each] == [
        one for document in made for sentence in document for one in sentence
    ]
    assert list(spans(np.array([5, 30, 4, 0, 6, 2]), np.array([0, 0, 0, 0, 0, 1]), 12)) == [
        (0, 0, 1), (1, 0, 1), (1, 12, 1), (1, 24, 2), (4, 0, 1), (5, 0, 1),
    ]  # fmt: skip


def test_a_store_in_parts_gives_every_sentence_once_an_epoch(stored: Made) -> None:
    documents = stored(corpus(30), part=50, masking=TokenMasking(probability=0.0), next_sentence=False)
    assert [len(part) > 0 for part in documents.parts()] == [True] * 8
    assert [one for part in documents.parts() for one in part] == list(range(len(documents)))
    batches, masked_ids = TextBatches(documents, tokens=512, pool=7), []
    for batch, cursor in batches.stream():
        masked_ids += [one for one in batch.ids.values.tolist() if one > 4]
        if cursor.epoch == 1:
            break
    assert sorted(masked_ids) == sorted(
        one for document in corpus(30) for sentence in document for one in sentence
    )


def test_other_words_are_masked_in_each_epoch_and_the_same_again_from_a_cursor(stored: Made) -> None:
    batches = TextBatches(stored(corpus(30)), tokens=512, pool=40)
    stream = batches.stream()
    seen = [next(stream) for _ in range(3 * batches.batches_per_epoch())]
    cursor = seen[4][1]
    again = next(batches.stream(cursor))[0]
    assert torch.equal(again.ids.values, seen[5][0].ids.values)
    assert torch.equal(again.token_labels, seen[5][0].token_labels)
    epochs = {}
    for batch, _ in seen:
        for labels, number in zip(batch.ids.like(batch.token_labels).split(), batch.sentences, strict=True):
            epochs.setdefault(number, []).append(labels.tolist())
    assert any(one != other for one, other, *_ in (each for each in epochs.values() if len(each) > 1))
    assert FOREIGN in {int(each) for batch, _ in seen for each in batch.labels[:, 0]}


def test_documents_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One. Two follows! three\n\n \nA second document , e.g. this . It ends .\nLine.\n")
    assert list(read_sentences(path)) == [
        (0, "One."),
        (0, "Two follows! three"),
        (1, "A second document , e.g. this ."),
        (1, "It ends ."),
        (1, "Line."),
    ]
    text = DocumentFile(path, lambda first: first != "One.")
    assert (text.documents, text.sentences) == (1, 3)
    assert next(text.pairs()) == ("A second document , e.g. this .", "1")
    assert text.fingerprint != DocumentFile(path).fingerprint
    path.write_text("\n \n")
    with pytest.raises(CorpusError, match="holds no text"):
        DocumentFile(path)


def test_a_document_is_read_without_being_held(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("".join(f"{number} {'word' * 200}\n" for number in range(6_000)))  # 5 MB
    tracemalloc.start()
    text = DocumentFile(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (text.documents, text.sentences) == (1, 6_000)
    assert most < 500_000
