"""Counts of tokens: shares that add up to 1, Kneser-Ney's by hand, and a file that strangers may have written."""

import numpy as np
import pytest
import torch

from regard.nn.ngram import Ngram, counted, from_tensors

ROW = np.array([0, 1, 2, 0, 1, 3, 0, 1, 2])


def test_shares_are_those_of_the_formula() -> None:
    model = counted([ROW], 5, 2, discount=0.5)
    # Different tokens stood before 0: {2, 3}, before 1: {0}, 2: {1}, 3: {1}; five pairs in all.
    shorter = np.array([2 - 0.5, 0.5, 0.5, 0.5, 0]) / 5 + 0.5 * 4 / 5 / 5
    # After 1 came 2 twice and 3 once.
    wanted = np.array([0, 0, 2 - 0.5, 1 - 0.5, 0]) / 3 + 0.5 * 2 / 3 * shorter
    assert np.allclose(model.shares([1]), wanted)
    assert np.allclose(model.shares([4]), shorter)  # never seen: by shorter runs
    assert np.allclose(model.shares([]), shorter)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("discount", [0.0, 0.3])
def test_shares_add_up_to_one_after_anything(order: int, discount: float) -> None:
    row = np.random.default_rng(0).integers(0, 6, 400)
    model = counted([row[:250], row[250:]], 7, order, discount)
    for context in ([], [6], [1, 2], [6, 1, 2], row[10:20].tolist()):
        shares = model.shares(context)
        assert shares.sum() == pytest.approx(1)
        assert shares.min() > 0  # also for a token that never occurred


def test_a_whole_text_costs_what_its_tokens_cost_one_by_one() -> None:
    row = np.random.default_rng(1).integers(0, 6, 300)
    model = counted([row[:200]], 6, 4)
    rest = row[200:]
    one_by_one = [-np.log(model.shares(rest[:place].tolist())[rest[place]]) for place in range(1, len(rest))]
    assert np.allclose(model.nats(rest), one_by_one)


def test_runs_do_not_reach_over_the_beginning_of_a_row() -> None:
    apart, together = counted([ROW[:4], ROW[4:]], 5, 2, 0.5), counted([ROW], 5, 2, 0.5)
    assert apart.totals[1].sum() == together.totals[1].sum() - 1


def test_steps_give_the_same_shares_and_states_can_be_chosen_from() -> None:
    model = counted([np.random.default_rng(2).integers(0, 6, 300)], 6, 3)
    text = torch.tensor([[1, 2, 3], [4, 5, 0]])
    scores, state = model.step(text[:, 2], model.start(text[:, :2]))
    assert np.allclose(scores[1].exp().numpy(), model.shares([4, 5, 0]), atol=1e-6)
    scores, _ = model.step(torch.tensor([1]), state.select(torch.tensor([1])))
    assert np.allclose(scores[0].exp().numpy(), model.shares([5, 0, 1]), atol=1e-6)


def saved(model: Ngram) -> dict[str, torch.Tensor]:
    return {name: each.clone() for name, each in model.state_dict().items()}


def test_what_is_saved_is_what_is_loaded() -> None:
    model = counted([ROW], 5, 3)
    again = from_tensors(saved(model), 5)
    assert np.array_equal(again.shares([0, 1]), model.shares([0, 1]))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("keys_2", torch.tensor([3.0, 2.0]), "no counts, or not one for each"),
        ("keys_1", torch.tensor([0.0, 2.0, 1.0, 3.0]), "not in order"),
        ("keys_1", torch.tensor([0.0, 1.0, 2.0, 99.0]), "of tokens that there are not"),
        ("counts_1", torch.tensor([1.0, -1.0, 2.0, 3.0]), "of tokens that there are not"),
        ("discounts", torch.tensor([0.5, 2.0]), "discounts are not between 0 and 1"),
    ],
)
def test_damaged_counts_are_told(name: str, value: torch.Tensor, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        from_tensors({**saved(counted([ROW], 5, 2)), name: value.double()}, 5)
    with pytest.raises(ValueError, match="'keys_2' is missing"):
        from_tensors({name: each for name, each in saved(counted([ROW], 5, 2)).items() if name != "keys_2"}, 5)
