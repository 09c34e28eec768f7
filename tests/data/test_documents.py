"""What is hidden, and what follows: the shares are BERT's, and nothing crosses from document to document."""

from pathlib import Path

import numpy as np
import pytest

from regard.data.documents import FOLLOWS, FOREIGN, Documents, Hiding, Symbols, read_documents, stretches
from regard.data.examples import NOTHING, TextBatches
from regard.data.lines import CorpusError

VOCABULARY = 1000
SYMBOLS = Symbols(2, 3, 4, np.arange(5, VOCABULARY), np.arange(VOCABULARY) % 3 == 0)


def corpus(documents: int, sentences: int = 12, longest: int = 64, **options) -> Documents:
    """Documents whose ids tell where they come from: document d has ids 5 + 10 d to 14 + 10 d."""
    chance = np.random.default_rng(0)
    made = [
        [(5 + number * 10 + chance.integers(0, 10, chance.integers(3, 12))).tolist() for _ in range(sentences)]
        for number in range(documents)
    ]
    return Documents(made, longest, SYMBOLS, options.pop("hiding", Hiding()), **options)


@pytest.mark.parametrize("whole_words", [False, True])
def test_a_million_tokens_are_hidden_in_berts_shares(whole_words: bool) -> None:
    chance = np.random.default_rng(1)
    ids = chance.integers(5, VOCABULARY, 1_000_000)
    asked = np.ones(len(ids), bool)
    seen, marks = Hiding(whole_words=whole_words)(ids, asked, SYMBOLS, chance)
    hidden = marks != NOTHING
    assert hidden.mean() == pytest.approx(0.15, abs=0.002)
    assert (marks[hidden] == ids[hidden]).all()
    assert (seen[~hidden] == ids[~hidden]).all()
    masked = seen[hidden] == SYMBOLS.mask
    unchanged = seen[hidden] == ids[hidden]
    assert masked.mean() == pytest.approx(0.80, abs=0.002)
    assert unchanged.mean() == pytest.approx(0.10, abs=0.002 + 0.1 / VOCABULARY)
    assert (~masked & ~unchanged).mean() == pytest.approx(0.10, abs=0.002 + 0.1 / VOCABULARY)
    assert np.isin(seen[hidden & (seen != ids) & (seen != SYMBOLS.mask)], SYMBOLS.ordinary).all()


def test_whole_words_are_hidden_whole() -> None:
    chance = np.random.default_rng(1)
    ids = np.array([2, *chance.integers(5, VOCABULARY, 5000), 3])
    asked = (ids != 2) & (ids != 3)
    _, marks = Hiding(whole_words=True)(ids, asked, SYMBOLS, chance)
    hidden = marks != NOTHING
    goes_on = SYMBOLS.continues[ids] & asked
    goes_on[1] = False  # nothing stands before it that it could go on from
    assert (hidden[1:] == hidden[:-1])[goes_on[1:]].all()
    assert not hidden[[0, -1]].any()


def test_half_of_the_second_parts_follow_and_the_others_are_of_another_document() -> None:
    # Nothing hidden, so that ids tell their document.
    documents = corpus(90, hiding=Hiding(share=0.0))
    chance = np.random.default_rng(2)
    examples = [each for _ in range(40) for each in documents.load(np.arange(len(documents)), chance)]
    pairs = [each for each in examples if each.gold[0] != NOTHING]
    assert len(pairs) > 7_000
    assert np.mean([each.gold[0] == FOLLOWS for each in pairs]) == pytest.approx(0.5, abs=0.02)
    for each in pairs:
        first, second = (
            (part[part > 4] - 5) // 10 for part in (each.ids[: each.second], each.ids[each.second :])
        )
        assert len(set(first)) == len(set(second)) == 1
        assert (first[0] == second[0]) == (each.gold[0] == FOLLOWS)
        assert (each.ids[0], each.ids[each.second - 1], each.ids[-1]) == (2, 3, 3)
        assert len(each.ids) <= 64


def test_second_parts_that_follow_are_real_neighbours() -> None:
    documents = Documents([[[10, 11], [12], [13, 14]], [[90], [91]]], 64, SYMBOLS, Hiding(share=0.0))
    chance = np.random.default_rng(3)
    seen = {tuple(documents.example(0, chance).ids.tolist()) for _ in range(60)}
    following = {ids for ids in seen if max(ids) < 90}
    assert following == {(2, 10, 11, 3, 12, 13, 14, 3), (2, 10, 11, 12, 3, 13, 14, 3)}


def test_a_sentence_alone_is_not_asked_what_follows() -> None:
    documents = Documents([[[10, 11]], [[12]]], 64, SYMBOLS, Hiding())
    assert [each.gold for each in documents.load(np.arange(2), np.random.default_rng(0))] == [
        (NOTHING,),
        (NOTHING,),
    ]


def test_stretches_hold_everything_once_and_fit() -> None:
    document = [[1] * 5, [2] * 30, [3] * 4, [4] * 6]
    found = list(stretches(document, 12))
    assert all(sum(map(len, each)) <= 12 for each in found)
    assert np.concatenate([ids for each in found for ids in each]).tolist() == [
        one for each in document for one in each
    ]


def test_other_words_are_hidden_in_each_epoch_and_the_same_again_from_a_cursor() -> None:
    batches = TextBatches(corpus(30), padding=0, tokens=512, pool=40)
    stream = batches.stream()
    seen = [next(stream) for _ in range(3 * batches.per_epoch())]
    cursor = seen[4][1]
    again = next(batches.stream(cursor))[0]
    assert (again.ids == seen[5][0].ids).all()
    assert (again.marks == seen[5][0].marks).all()
    epochs = {}
    for batch, _ in seen:
        for row, number in enumerate(batch.sentences):
            epochs.setdefault(number, []).append(batch.marks[row].tolist())
    assert any(one != other for one, other, *_ in (each for each in epochs.values() if len(each) > 1))
    assert FOREIGN in {int(each) for batch, _ in seen for each in batch.gold[:, 0]}


def test_documents_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One. Two follows! three\n\n \nA second document , e.g. this . It ends .\nLine.\n")
    assert list(read_documents(path)) == [
        ["One.", "Two follows! three"],
        ["A second document , e.g. this .", "It ends .", "Line."],
    ]
    path.write_text("\n \n")
    with pytest.raises(CorpusError, match="holds no text"):
        list(read_documents(path))
