"""The cache: what it appends, reorders and refuses. That it equals the full pass is in test_properties."""

import pytest
import torch

from regard.nn import KeyValue, KvCache, KvCacheStep, MultiHead


def entry(start: int, length: int, batch: int = 3, heads: int = 2, size: int = 4) -> KeyValue:
    """Keys whose content says sentence and place; values are the keys negated, and wider."""
    places = torch.arange(start, start + length)
    content = (100.0 * torch.arange(batch).view(-1, 1, 1, 1) + places.view(1, 1, -1, 1)).expand(
        -1, heads, -1, -1
    )
    return KeyValue(content.expand(-1, -1, -1, size), -content.expand(-1, -1, -1, size + 1), places)


def test_what_is_appended_is_all_there_in_order():
    cache = KvCache(room=4).extend(entry(0, 2)).extend(entry(2, 1))
    memory, whole = cache.memory, entry(0, 3)
    assert cache.length == memory.length == 3
    assert torch.equal(memory.keys, whole.keys)
    assert torch.equal(memory.values, whole.values)
    assert memory.positions.tolist() == [0, 1, 2]


@pytest.mark.parametrize("room", [1, 2, 3, 64])
@pytest.mark.parametrize("lengths", [[1] * 9, [5, 1, 20], [70, 1], [3, 60, 2]])
def test_it_grows_beyond_its_room(room, lengths):
    cache, start = KvCache(room=room), 0
    for length in lengths:
        cache = cache.extend(entry(start, length))
        start += length
    whole = entry(0, start)
    assert cache.length == start
    assert torch.equal(cache.memory.keys, whole.keys)
    assert torch.equal(cache.memory.values, whole.values)


def test_within_its_room_new_keys_are_written_in_place():
    first = KvCache(room=8).extend(entry(0, 2))
    second = first.extend(entry(2, 3))
    assert first.memory.keys.data_ptr() == second.memory.keys.data_ptr()
    assert first.length == 2
    assert torch.equal(first.memory.keys, entry(0, 2).keys)


@pytest.mark.parametrize("room", [2, 3, 8])
def test_an_old_cache_can_be_extended_again_by_other_tokens(room):
    old = KvCache(room=room).extend(entry(0, 2))
    new, other = entry(2, 1), entry(2, 1)
    other = KeyValue(other.keys + 5, other.values + 5, other.positions)
    one, two = old.extend(new), old.extend(other)
    three = one.extend(entry(3, 1))
    assert torch.equal(old.memory.keys, entry(0, 2).keys)
    assert torch.equal(one.memory.keys, entry(0, 3).keys)
    assert torch.equal(two.memory.keys, torch.cat([entry(0, 2).keys, other.keys], 2))
    assert torch.equal(two.memory.values, torch.cat([entry(0, 2).values, other.values], 2))
    assert torch.equal(three.memory.keys, entry(0, 4).keys)


@pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 1], [2], [0, 2, 2, 1, 0]], ids=str)
def test_select_reorders_repeats_and_drops(rows):
    index = torch.tensor(rows)
    chosen = KvCache(room=4).extend(entry(0, 3)).select(index)
    assert chosen.length == 3
    whole = entry(0, 4)
    new = KeyValue(whole.keys[index, :, 3:], whole.values[index, :, 3:], torch.tensor([3]))
    memory = chosen.extend(new).memory
    assert torch.equal(memory.keys, whole.keys[index])
    assert torch.equal(memory.values, whole.values[index])


def test_an_empty_cache_can_be_selected_from():
    chosen = KvCache().select(torch.tensor([1, 0]))
    assert chosen.length == 0
    assert chosen.extend(entry(0, 1)).length == 1
    with pytest.raises(ValueError, match="an empty cache has no keys"):
        _ = chosen.memory


def test_a_memory_is_selected_the_same_way():
    chosen = entry(0, 3).select(torch.tensor([2, 2]))
    assert torch.equal(chosen.keys, entry(0, 3).keys[[2, 2]])
    assert torch.equal(chosen.values, entry(0, 3).values[[2, 2]])
    assert chosen.positions.tolist() == [0, 1, 2]


def test_gradients_are_refused():
    attention, x = MultiHead(8, 2), torch.randn(1, 2, 8)
    with pytest.raises(ValueError, match=r"keeps no gradients: decode under torch\.no_grad\(\)"):
        KvCache().extend(attention.project_kv(x))
    with torch.no_grad():
        assert KvCache().extend(attention.project_kv(x)).length == 2


@pytest.mark.parametrize(("held", "given"), [(0, 1), (2, 0), (2, 1), (2, 5)])
def test_keys_at_the_wrong_position_are_refused_with_both_positions(held, given):
    cache = KvCache().extend(entry(0, held)) if held else KvCache()
    with pytest.raises(ValueError, match=f"next key is at {held}, not at {given}"):
        cache.extend(entry(given, 1))
    assert cache.length == held


@pytest.mark.parametrize("room", [2, 64], ids=["full", "with room"])
@pytest.mark.parametrize(("held", "given"), [(3, 1), (1, 3), (3, 2)])
def test_keys_of_another_number_of_sentences_are_refused(room, held, given):
    """One sentence's keys written to all would be a silent mistake: `select` was forgotten."""
    cache = KvCache(room=room).extend(entry(0, 2, batch=held))
    with pytest.raises(ValueError, match=f"holds {held} sentences"):
        cache.extend(entry(2, 1, batch=given))


def test_positions_count_on_from_what_is_cached():
    attention = MultiHead(8, 2)
    with torch.no_grad():
        step = KvCacheStep(KvCache().extend(attention.project_kv(torch.randn(1, 3, 8))))
        new = attention.project_kv(torch.randn(1, 2, 8), start=step.length)
        assert new.positions.tolist() == [3, 4]
        assert step.extend(new).positions.tolist() == [0, 1, 2, 3, 4]
        assert step.cache.length == 5
