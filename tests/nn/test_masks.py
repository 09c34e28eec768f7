"""Masks say who may look: shapes and contents."""

import pytest
import torch

from regard.nn import causal_mask, combine_masks, length_mask, padding_mask


def test_padding_is_hidden_from_every_query():
    ids = torch.tensor([[5, 6, 0, 0], [7, 0, 8, 9]])  # 0 inside a sentence is hidden too
    mask = padding_mask(ids, padding=0)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[[True, True, False, False]], [[True, False, True, True]]]


def test_one_length_a_sequence():
    assert length_mask(torch.tensor([0, 2, 3]), 3).tolist() == [
        [[False, False, False]],
        [[True, True, False]],
        [[True, True, True]],
    ]


def test_one_length_a_query():
    mask = length_mask(torch.tensor([[1, 2], [3, 0]]), 3)
    assert mask.shape == (2, 2, 3)
    assert mask.sum(-1).tolist() == [[1, 2], [3, 0]]
    assert mask[0, 1].tolist() == [True, True, False]


def test_lengths_of_another_rank_are_refused_by_their_shape():
    with pytest.raises(ValueError, match=r"\(batch,\) or \(batch, query\).*\(2, 1, 1\)"):
        length_mask(torch.ones(2, 1, 1), 3)


def test_a_causal_mask_shows_each_query_its_own_place_and_what_is_before():
    assert causal_mask(3).tolist() == [[[True, False, False], [True, True, False], [True, True, True]]]


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 6), (2, 6), (6, 6)])
def test_with_more_keys_than_queries_the_queries_are_the_last(queries, keys):
    assert torch.equal(causal_mask(queries, keys), causal_mask(keys)[:, keys - queries :])


def test_fewer_keys_than_queries_are_refused():
    with pytest.raises(ValueError, match="3 queries, 2 keys"):
        causal_mask(3, 2)


def test_combined_masks_show_what_all_of_them_show():
    padding = length_mask(torch.tensor([1, 3]), 3)
    both = combine_masks(padding, None, causal_mask(3))
    assert both.shape == (2, 3, 3)
    for sentence in range(2):
        for query in range(3):
            for key in range(3):
                expected = key <= query and key < (1, 3)[sentence]
                assert both[sentence, query, key].item() is expected


def test_nothing_combined_hides_nothing():
    assert combine_masks() is None
    assert combine_masks(None, None) is None
    one = causal_mask(2)
    assert torch.equal(combine_masks(None, one), one)
