"""N-gram model: distributions, Kneser-Ney smoothing computed by hand, and damaged files."""

import numpy as np
import pytest
import torch

from regard.nn.ngram import Ngram, count_ngrams, ngram_from_tensors

ROW = np.array([0, 1, 2, 0, 1, 3, 0, 1, 2])


def test_probabilities_are_those_of_the_formula() -> None:
    model = count_ngrams([ROW], 5, 2, discount=0.5)
    # Different tokens before 0: {2, 3}, before 1: {0}, before 2: {1}, before 3: {1}; five bigrams in total.
    unigrams = np.array([2 - 0.5, 0.5, 0.5, 0.5, 0]) / 5 + 0.5 * 4 / 5 / 5
    # After 1 came 2 twice, and 3 once.
    expected = np.array([0, 0, 2 - 0.5, 1 - 0.5, 0]) / 3 + 0.5 * 2 / 3 * unigrams
    assert np.allclose(model.probabilities([1]), expected)
    assert np.allclose(model.probabilities([4]), unigrams)  # never seen: the lower order
    assert np.allclose(model.probabilities([]), unigrams)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("discount", [0.0, 0.3])
def test_probabilities_sum_to_one_after_any_context(order: int, discount: float) -> None:
    row = np.random.default_rng(0).integers(0, 6, 400)
    model = count_ngrams([row[:250], row[250:]], 7, order, discount)
    for context in ([], [6], [1, 2], [6, 1, 2], row[10:20].tolist()):
        probabilities = model.probabilities(context)
        assert probabilities.sum() == pytest.approx(1)
        assert probabilities.min() > 0  # also for a token that never occurred


def test_losses_of_a_sequence_equal_those_token_by_token() -> None:
    row = np.random.default_rng(1).integers(0, 6, 300)
    model = count_ngrams([row[:200]], 6, 4)
    rest = row[200:]
    one_by_one = [-np.log(model.probabilities(rest[:end].tolist())[rest[end]]) for end in range(1, len(rest))]
    assert np.allclose(model.token_losses(rest), one_by_one)


def test_ngrams_do_not_cross_the_borders_of_sequences() -> None:
    separate, joined = count_ngrams([ROW[:4], ROW[4:]], 5, 2, 0.5), count_ngrams([ROW], 5, 2, 0.5)
    assert separate.totals[1].sum() == joined.totals[1].sum() - 1


def test_steps_give_the_same_probabilities_and_states_can_be_selected() -> None:
    model = count_ngrams([np.random.default_rng(2).integers(0, 6, 300)], 6, 3)
    text = torch.tensor([[1, 2, 3], [4, 5, 0]])
    scores, state = model.step(text[:, 2], model.start(text[:, :2]))
    assert np.allclose(scores[1].exp().numpy(), model.probabilities([4, 5, 0]), atol=1e-6)
    scores, _ = model.step(torch.tensor([1]), state.select(torch.tensor([1])))
    assert np.allclose(scores[0].exp().numpy(), model.probabilities([5, 0, 1]), atol=1e-6)


def saved(model: Ngram) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_saved_equals_loaded() -> None:
    model = count_ngrams([ROW], 5, 3)
    loaded = ngram_from_tensors(saved(model), 5)
    assert np.array_equal(loaded.probabilities([0, 1]), model.probabilities([0, 1]))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("keys_2", torch.tensor([3.0, 2.0]), "has no n-grams, or not one count for each"),
        ("keys_1", torch.tensor([0.0, 2.0, 1.0, 3.0]), "not sorted"),
        ("keys_1", torch.tensor([0.0, 1.0, 2.0, 99.0]), "outside the vocabulary, or a count is negative"),
        ("counts_1", torch.tensor([1.0, -1.0, 2.0, 3.0]), "outside the vocabulary, or a count is negative"),
        ("discounts", torch.tensor([0.5, 2.0]), "discounts are not one number between 0 and 1"),
    ],
)
def test_damaged_counts_are_refused(name: str, value: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ngram_from_tensors({**saved(count_ngrams([ROW], 5, 2)), name: value.double()}, 5)
    with pytest.raises(ValueError, match="'keys_2' is missing"):
        ngram_from_tensors(
            {name: tensor for name, tensor in saved(count_ngrams([ROW], 5, 2)).items() if name != "keys_2"}, 5
        )
