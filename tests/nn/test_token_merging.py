"""Token merging: nothing at r = 0, nothing by duplicates, the paper's rule, order kept, and undone."""

from dataclasses import replace

import pytest
import torch
from support.padded_calls import run_padded
from torch import nn

from regard.config.models import BertConfig, VitConfig
from regard.engine import run
from regard.nn import AttentionStats, Merging, Packed, ReducedTokens, reduce_tokens
from regard.nn.build import build_bert, build_vit
from regard.nn.token_reduction import match, matmul_flops, merge

VIT = VitConfig(layers=3, d_model=32, heads=4, d_ff=48, patch=2, height=8, width=8, channels=1)
BERT = BertConfig(layers=3, d_model=32, heads=4, d_ff=48, max_length=30)


def vit(config: VitConfig = VIT) -> nn.Module:
    torch.manual_seed(0)
    model = build_vit(config, 5).eval()
    for each in model.parameters():
        nn.init.normal_(each, std=0.3)
    return model


def bert(head: str = "tags") -> nn.Module:
    torch.manual_seed(0)
    model = build_bert(BERT, head, 50, 0, 3).eval()
    for each in model.parameters():
        nn.init.normal_(each, std=0.3)
    return model


def images(count: int = 4) -> torch.Tensor:
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def texts(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(1, 50, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(2))
    ids = ids.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths).unsqueeze(1), 0)
    return ids, torch.zeros_like(ids)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("amounts", [(0.0,), (0.0, 0.0, 0.0)])
def test_nothing_merged_changes_nothing(amounts: tuple[float, ...], native: bool) -> None:
    for model, given in ((vit(), (images(),)), (bert("classes"), texts(9, 5)), (bert("tags"), texts(9, 5))):
        body = model.vit if hasattr(model, "vit") else model.bert
        forward = run_padded if native else nn.Module.__call__
        with torch.no_grad():
            plain = forward(model, *given)
            if plain.dim() == 3:  # tags at padding mean nothing
                plain = plain[given[0] != 0]
            body.reduction = Merging(amounts)
            found = forward(model, *given)
            if found.dim() == 3:
                found = found[given[0] != 0]
        # The modules compute the last block for the first token alone: another matrix product, rounded otherwise.
        assert torch.equal(found, plain) if native else torch.allclose(found, plain, atol=1e-5)


def test_merging_exact_duplicates_changes_nothing() -> None:
    """A row of tokens, each of which stands there twice: merged to one each, every token has the same vector."""
    model = vit().vit.double()
    x = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    twice = x.repeat_interleave(2, 1)
    nonpad = torch.ones(2, 12, dtype=torch.bool)
    none, half = Merging((0.0,)), Merging((6.0, 0.0, 0.0), first_stays=False)
    with torch.no_grad():
        plain = reduce_tokens(model.blocks, twice, nonpad, none, first_only=False)
        found = reduce_tokens(model.blocks, twice, nonpad, half, first_only=False)
    assert found.lengths.tolist() == [6, 6]
    assert found.size.tolist() == [[2.0] * 6] * 2
    assert torch.allclose(found.unmerged(), plain.x, atol=1e-6)
    single = model.float()
    with torch.no_grad():
        plain = reduce_tokens(single.blocks, twice.float(), nonpad, none, first_only=False)
        found = reduce_tokens(single.blocks, twice.float(), nonpad, half, first_only=False)
    assert (found.unmerged() - plain.x).abs().max() / plain.x.abs().max() < 1e-6


def by_hand(keys: torch.Tensor, many: int, first_stays: bool) -> list[set[int]]:
    """The paper's rule for one sentence, step by step: groups of old places in the order of those that stay."""
    keys = keys / keys.norm(dim=-1, keepdim=True)
    seekers, others = range(0, len(keys), 2), range(1, len(keys), 2)
    pairs = []
    for seeker in seekers if many else ():
        other = max(others, key=lambda place: float(keys[seeker] @ keys[place]))
        if not (first_stays and seeker == 0):
            pairs.append((float(keys[seeker] @ keys[other]), seeker, other))
    gone = {seeker: other for _, seeker, other in sorted(pairs, reverse=True)[:many]}
    return [
        {place, *(one for one, other in gone.items() if other == place)}
        for place in range(len(keys))
        if place not in gone
    ]


@pytest.mark.parametrize("first_stays", [True, False])
def test_pairs_are_the_most_alike_and_order_is_kept(first_stays: bool) -> None:
    chance = torch.Generator().manual_seed(4)
    lengths, many = [9, 4, 12, 2, 1], [3, 1, 4, 0, 0]
    packed = Packed(torch.randn(sum(lengths), 8, generator=chance), torch.tensor(lengths))
    keys = packed.padded(1e3)  # what stands at padding must not be chosen
    target = match(keys, packed.nonpad, torch.tensor(many), neighbors_only=False, first_stays=first_stays)
    for number, (length, gone) in enumerate(zip(lengths, many, strict=True)):
        own = target[number].tolist()
        assert own[length:] == [0] * (12 - length)
        groups = [{place for place in range(length) if own[place] == new} for new in range(length - gone)]
        assert groups == by_hand(keys[number, :length], gone, first_stays)


def test_near_merges_stretches_only() -> None:
    model = bert().bert
    model.reduction = Merging((0.4,), neighbors_only=True)
    ids, segments = texts(25, 14, 3)
    left = model.reduced(ids, segments, first_only=False)
    for index, length, first in zip(left.index, left.lengths.tolist(), (25, 14, 3), strict=True):
        assert (index[:first].diff() >= 0).all()  # stretches, in order
        assert int(index[first - 1]) + 1 == length
        assert (index[first:] == -1).all()
        assert index[0] != index[1]  # [CLS] stays by itself
    assert left.lengths.sum() < 20
    assert left.size.sum(1).tolist() == [25, 14, 3]


def test_a_merged_token_is_the_mean_weighed_by_size() -> None:
    """Beside a shorter sequence, of which nothing is merged."""
    x = torch.tensor([[[1.0], [4.0], [7.0]], [[5.0], [9.0], [9.0]]])
    nonpad = torch.tensor([[True] * 3, [True, False, False]])
    left = ReducedTokens(x, nonpad, torch.tensor([[1.0, 3.0, 2.0], [1.0, 0.0, 0.0]]))
    found = merge(left, torch.tensor([[0, 0, 1], [0, 0, 0]]), torch.tensor([2, 1]))
    assert found.x[0].flatten().tolist() == [pytest.approx((1 + 12) / 4), 7.0]
    assert found.size.tolist() == [[4.0, 2.0], [1.0, 0.0]]
    assert found.nonpad.tolist() == [[True, True], [True, False]]
    assert found.x[1, 0] == 5
    again = merge(found, torch.tensor([[0, 0], [0, 0]]), torch.tensor([1, 1]))
    assert again.x.flatten().tolist() == pytest.approx([(1 + 12 + 14) / 6, 5])
    assert again.index.tolist() == [[0, 0, 0], [0, -1, -1]]
    assert found.bias.exp()[0].flatten().tolist() == pytest.approx([4.0, 2.0])
    assert again.means().flatten().tolist() == pytest.approx([(1 + 12 + 14) / 6, 5])
    assert found.means().flatten().tolist() == pytest.approx([(1 + 12 + 14) / 6, 5])


def test_tagging_still_gives_a_label_for_each_token() -> None:
    model = bert("tags")
    ids, segments = texts(20, 7)
    with torch.no_grad():
        plain = model(ids, segments)
        model.bert.reduction = Merging((0.3,), neighbors_only=True)
        found = model(ids, segments)
        alone = model(ids[1:, :7], segments[1:, :7])
    assert found.shape == plain.shape
    assert not torch.allclose(found[0], plain[0], atol=1e-3)
    assert torch.allclose(found[1, :7], alone[0], atol=1e-5)  # what stands beside it changes nothing


def test_amounts_are_shares_or_numbers() -> None:
    model = vit().vit
    counted = {}
    for amounts in ((0.25,), (4.0,), (0.25, 3.0), (100.0,)):
        counts = model.reduced(images(), Merging(amounts)).counts
        counted[amounts] = [int(after[0]) for _, after in counts]
    assert counted == {(0.25,): [13, 10, 1], (4.0,): [13, 9, 1], (0.25, 3.0): [13, 10, 1], (100.0,): [9, 5, 1]}


@pytest.mark.parametrize("pooling", ["class", "mean"])
def test_kernels_and_plain_path_agree(pooling: str) -> None:
    model = vit(replace(VIT, pooling=pooling))
    model.vit.reduction = Merging((0.3,), first_stays=pooling == "class")
    with torch.no_grad():
        fast = run(model, images())
        assert torch.allclose(model(images()), fast, atol=2e-5)


def test_gradients_reach_every_weight_and_fit_the_plain_path() -> None:
    found = []
    for native in (True, False):
        model = vit().train()
        model.vit.reduction = Merging((0.3,))
        (run(model, images()) if native else model(images())).square().sum().backward()
        found.append([each.grad for each in model.parameters()])
    assert all(each is not None and each.any() for each in found[0])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=2e-3 * float(other.abs().max()))


def test_the_class_token_is_never_merged() -> None:
    keys, nonpad = torch.ones(1, 8, 4), torch.ones(1, 8, dtype=torch.bool)  # all alike
    target = match(keys, nonpad, torch.tensor([3]), neighbors_only=False, first_stays=True)
    assert (target == target[0, 0]).sum() == 1


def test_operations_are_counted() -> None:
    tokens, d, d_ff = 10, 4, 8
    all_of_it = ((torch.tensor([tokens]), torch.tensor([tokens])),)
    expected = 2 * (4 * tokens * d * d + 2 * tokens * tokens * d + 2 * tokens * d * d_ff)
    assert matmul_flops(all_of_it, d, d_ff, first_only=False) == expected
    one = ((torch.tensor([tokens]), torch.tensor([1])),)
    expected = 2 * (2 * tokens * d * d + 2 * d * d + 2 * tokens * d + 2 * d * d_ff)
    assert matmul_flops(one, d, d_ff, first_only=True) == expected


def test_statistics_of_keys_and_attention() -> None:
    """What a reduction is decided by: the mean key of the heads, and attention received, 1 on average."""
    block = vit().vit.blocks[0]
    nonpad = torch.arange(9) < torch.tensor([[5], [9]])
    x = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(5))
    stats = AttentionStats(nonpad)
    with torch.no_grad():
        block.self_attention(x, mask=nonpad.unsqueeze(1), stats=stats)
        attention = block.self_attention.sublayer.attention
        memory = attention.project_kv(block.self_attention.norm(x))
    assert torch.allclose(stats.keys, memory.keys.mean(1))
    assert stats.received[0, 5:].tolist() == [0] * 4  # nothing at padding
    assert stats.received.sum(1).tolist() == pytest.approx([5, 9], abs=1e-4)
