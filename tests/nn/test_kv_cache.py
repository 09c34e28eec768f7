"""The KV cache: appending, selecting, branches, refusals. That it equals the full pass is in test_properties."""

from dataclasses import FrozenInstanceError

import pytest
import torch

from regard.nn import KeyValue, KvCache, KvCacheStep, MultiHead, SelfAttention


def entry(start: int, length: int, batch: int = 3, heads: int = 2, size: int = 4) -> KeyValue:
    """Keys whose content says sentence and place; values are the keys negated, and wider."""
    places = torch.arange(start, start + length)
    content = (100.0 * torch.arange(batch).view(-1, 1, 1, 1) + places.view(1, 1, -1, 1)).expand(
        -1, heads, -1, -1
    )
    return KeyValue(content.expand(-1, -1, -1, size), -content.expand(-1, -1, -1, size + 1), places)


def test_what_is_appended_is_all_there_in_order():
    cache = KvCache(capacity=4).extend(entry(0, 2)).extend(entry(2, 1))
    memory = cache.memory
    whole = entry(0, 3)
    assert cache.length == memory.length == 3
    assert torch.equal(memory.keys, whole.keys)
    assert torch.equal(memory.values, whole.values)
    assert memory.positions.tolist() == [0, 1, 2]


@pytest.mark.parametrize("capacity", [1, 2, 3, 64])
@pytest.mark.parametrize("lengths", [[1] * 9, [5, 1, 20], [70, 1], [3, 60, 2]])
def test_it_grows_beyond_its_capacity(capacity, lengths):
    cache, start = KvCache(capacity=capacity), 0
    for length in lengths:
        cache = cache.extend(entry(start, length))
        start += length
    memory, whole = cache.memory, entry(0, start)
    assert cache.length == start
    assert torch.equal(memory.keys, whole.keys)
    assert torch.equal(memory.values, whole.values)


def test_within_its_capacity_new_keys_are_written_in_place():
    first = KvCache(capacity=8).extend(entry(0, 2))
    second = first.extend(entry(2, 3))
    assert first.memory.keys.data_ptr() == second.memory.keys.data_ptr()
    assert torch.equal(first.memory.keys, entry(0, 2).keys)  # the old cache stays valid


def shifted(kv: KeyValue, by: float) -> KeyValue:
    return KeyValue(kv.keys + by, kv.values - by, kv.positions)


@pytest.mark.parametrize("capacity", [1, 2, 3, 4, 64])
def test_an_old_cache_can_be_extended_again_by_other_tokens(capacity):
    """Three branches from one prefix, and one from a branch: each holds its own tokens, whoever wrote last."""
    old = KvCache(capacity=capacity).extend(entry(0, 2))
    branches = {by: old.extend(shifted(entry(2, 1), by)) for by in (0.0, 5.0, 7.0)}
    longer = branches[5.0].extend(entry(3, 1))
    other = branches[5.0].extend(shifted(entry(3, 1), 9.0))
    whole = entry(0, 4)
    assert old.length == 2
    assert torch.equal(old.memory.keys, whole.keys[..., :2, :])
    assert torch.equal(old.memory.values, whole.values[..., :2, :])
    for by, branch in branches.items():
        assert branch.length == 3
        assert torch.equal(branch.memory.keys[..., :2, :], whole.keys[..., :2, :])
        assert torch.equal(branch.memory.keys[..., 2, :], whole.keys[..., 2, :] + by)
        assert torch.equal(branch.memory.values[..., 2, :], whole.values[..., 2, :] - by)
    for branch, by in ((longer, 0.0), (other, 9.0)):
        assert torch.equal(branch.memory.keys[..., :3, :], branches[5.0].memory.keys)
        assert torch.equal(branch.memory.keys[..., 3, :], whole.keys[..., 3, :] + by)


def test_a_cache_is_not_changed_in_place():
    cache = KvCache().extend(entry(0, 1))
    with pytest.raises(FrozenInstanceError):
        cache.length = 0


def test_an_empty_cache_has_no_memory():
    with pytest.raises(ValueError, match="extend it first"):
        KvCache().memory  # noqa: B018


@pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 1], [2], [0, 2, 2, 1, 0]], ids=str)
def test_select_reorders_repeats_and_drops(rows):
    cache = KvCache(capacity=4).extend(entry(0, 3))
    index = torch.tensor(rows)
    chosen = cache.select(index)
    assert chosen.length == 3
    whole = entry(0, 4)
    new = KeyValue(whole.keys[index, :, 3:], whole.values[index, :, 3:], torch.tensor([3]))
    memory = chosen.extend(new).memory
    assert torch.equal(memory.keys, whole.keys[index])
    assert torch.equal(memory.values, whole.values[index])


def test_a_selected_cache_and_its_origin_go_their_own_ways():
    cache = KvCache(capacity=8).extend(entry(0, 2))
    chosen = cache.select(torch.tensor([0, 1, 2]))
    ours = cache.extend(entry(2, 1))
    theirs = chosen.extend(shifted(entry(2, 1), 5))
    assert torch.equal(ours.memory.keys, entry(0, 3).keys)
    assert torch.equal(theirs.memory.keys[..., 2, :], entry(2, 1).keys[..., 0, :] + 5)
    assert cache.length == chosen.length == 2


def test_an_empty_cache_can_be_selected_from():
    chosen = KvCache().select(torch.tensor([1, 0]))
    assert chosen.length == 0
    assert chosen.extend(entry(0, 1)).length == 1


def test_a_memory_is_selected_the_same_way():
    chosen = entry(0, 3).select(torch.tensor([2, 2]))
    assert torch.equal(chosen.keys, entry(0, 3).keys[[2, 2]])
    assert torch.equal(chosen.values, entry(0, 3).values[[2, 2]])
    assert chosen.positions.tolist() == [0, 1, 2]


def test_gradients_are_refused():
    attention, x = MultiHead(8, 2), torch.randn(1, 2, 8)
    cache = KvCache()
    with pytest.raises(ValueError, match=r"stores no gradients; decode under torch\.no_grad\(\)"):
        cache.extend(attention.project_kv(x))
    assert cache.length == 0
    with torch.no_grad():
        assert cache.extend(attention.project_kv(x)).length == 2


@pytest.mark.parametrize(("held", "given"), [(0, 1), (2, 0), (2, 1), (2, 5)])
def test_keys_at_a_wrong_position_are_refused_naming_both_positions(held, given):
    cache = KvCache()
    if held:
        cache = cache.extend(entry(0, held))
    with pytest.raises(ValueError, match=f"next key has position {held}, not {given}"):
        cache.extend(entry(given, 1))
    assert cache.length == held


@pytest.mark.parametrize("capacity", [2, 64], ids=["full", "with capacity"])
@pytest.mark.parametrize(("held", "given"), [(3, 1), (1, 3), (3, 2)])
def test_keys_of_another_number_of_sequences_are_refused(capacity, held, given):
    """One sentence's keys written to all would be a silent mistake: `select` was forgotten."""
    cache = KvCache(capacity=capacity).extend(entry(0, 2, batch=held))
    with pytest.raises(ValueError, match=f"holds {held} sequences, the new keys are of {given}"):
        cache.extend(entry(2, 1, batch=given))


def test_places_count_on_from_what_is_cached():
    attention, cache = SelfAttention(MultiHead(8, 2)), KvCacheStep(KvCache())
    with torch.no_grad():
        attention(torch.randn(1, 3, 8), cache=cache)
        attention(torch.randn(1, 2, 8), cache=cache)
    assert cache.length == 5
    assert cache.cache.memory.positions.tolist() == [0, 1, 2, 3, 4]
