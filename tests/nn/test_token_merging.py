"""Token merging: nothing at r = 0 to the bit, nothing by duplicates, the paper's rule, order kept, and undone."""

import pytest
import torch
from torch import nn

from regard.config import BertModel, VitModel
from regard.engine import attach, detach
from regard.nn import AttentionStats, Ends, Merging, ReducedTokens
from regard.nn.build import build_bert, build_vit
from regard.nn.token_reduction import matched, merged, operations

VIT = VitModel(layers=3, d_model=32, heads=4, d_ff=48, patch=2, height=8, width=8, channels=1)
BERT = BertModel(layers=3, d_model=32, heads=4, d_ff=48, longest=30)


def vit(config: VitModel = VIT) -> nn.Module:
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


@pytest.mark.parametrize("amounts", [(0.0,), (0.0, 0.0, 0.0)])
def test_nothing_merged_changes_nothing_to_the_bit(amounts: tuple[float, ...]) -> None:
    for model, given in ((vit(), (images(),)), (bert("classes"), texts(9, 5)), (bert("tags"), texts(9, 5))):
        body = model.vit if hasattr(model, "vit") else model.bert
        attach(model)
        with torch.no_grad():
            plain = model(*given)
            body.reduction = Merging(amounts)
            assert torch.equal(model(*given), plain)


def test_merging_exact_duplicates_changes_nothing() -> None:
    """A row of tokens, each of which stands there twice: merged to one each, every token has the same vector."""
    model = vit().vit.double()
    x = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    twice = x.repeat_interleave(2, 1).flatten(0, 1)
    ends = Ends(torch.tensor([12, 12]))
    from regard.nn.token_reduction import reduced

    with torch.no_grad():
        plain = reduced(model.blocks, twice, ends, Merging((0.0,)), firsts=False)
        found = reduced(model.blocks, twice, ends, Merging((6.0, 0.0, 0.0), first_stays=False), firsts=False)
    assert found.ends.lengths.tolist() == [6, 6]
    assert found.size.tolist() == [2.0] * 12
    assert torch.allclose(found.unmerged(), plain.x, atol=1e-6)
    single = model.float()
    with torch.no_grad():
        plain = reduced(single.blocks, twice.float(), ends, Merging((0.0,)), firsts=False)
        found = reduced(
            single.blocks, twice.float(), ends, Merging((6.0, 0.0, 0.0), first_stays=False), firsts=False
        )
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
    keys = torch.randn(sum(lengths), 8, generator=chance)
    into = matched(keys, Ends(torch.tensor(lengths)), torch.tensor(many), near=False, first_stays=first_stays)
    start, before = 0, 0
    for length, gone in zip(lengths, many, strict=True):
        own = (into[start : start + length] - before).tolist()
        groups = [{place for place in range(length) if own[place] == new} for new in range(length - gone)]
        assert groups == by_hand(keys[start : start + length], gone, first_stays)
        start, before = start + length, before + length - gone


def test_near_merges_stretches_only() -> None:
    model = bert().bert
    model.reduction = Merging((0.4,), near=True)
    ids, segments = texts(25, 14, 3)
    left = model.reduced(ids, segments, Ends.of(ids, 0), firsts=False)
    assert (left.into.diff() >= 0).all()  # stretches, in order
    assert int(left.into[-1]) + 1 == len(left.x) < 20
    assert left.into[0] != left.into[1]  # [CLS] stays by itself
    assert left.size.sum() == 42


def test_a_merged_token_is_the_mean_weighed_by_size() -> None:
    left = ReducedTokens(
        torch.tensor([[1.0], [4.0], [7.0]]), Ends(torch.tensor([3])), torch.tensor([1.0, 3.0, 2.0])
    )
    found = merged(left, torch.tensor([0, 0, 1]), Ends(torch.tensor([2])))
    assert found.x.flatten().tolist() == [pytest.approx((1 + 12) / 4), 7.0]
    assert found.size.tolist() == [4.0, 2.0]
    again = merged(found, torch.tensor([0, 0]), Ends(torch.tensor([1])))
    assert again.x.item() == pytest.approx((1 + 12 + 14) / 6)
    assert again.into.tolist() == [0, 0, 0]
    assert found.bias.exp().tolist() == pytest.approx([4.0, 2.0])


def test_tagging_still_gives_a_label_for_each_token() -> None:
    model = bert("tags")
    ids, segments = texts(20, 7)
    with torch.no_grad():
        plain = model(ids, segments)
        model.bert.reduction = Merging((0.3,), near=True)
        found = model(ids, segments)
        alone = model(ids[1:, :7], segments[1:, :7])
    assert found.shape == plain.shape
    assert not torch.allclose(found[0], plain[0], atol=1e-3)
    assert torch.allclose(found[1, :7], alone[0], atol=1e-5)  # what stands beside it changes nothing


def test_amounts_are_shares_or_numbers() -> None:
    model = vit().vit
    counted = {}
    for amounts in ((0.25,), (4.0,), (0.25, 3.0), (100.0,)):
        walked = model.reduced(images(), Merging(amounts)).walked
        counted[amounts] = [int(after[0]) for _, after in walked]
    assert counted == {(0.25,): [13, 10, 1], (4.0,): [13, 9, 1], (0.25, 3.0): [13, 10, 1], (100.0,): [9, 5, 1]}


@pytest.mark.parametrize("read", ["class", "mean"])
def test_kernels_and_plain_path_agree(read: str) -> None:
    model = vit(VitModel(**{**{name: getattr(VIT, name) for name in VIT.__dataclass_fields__}, "read": read}))
    model.vit.reduction = Merging((0.3,), first_stays=read == "class")
    with torch.no_grad():
        fast = attach(model)(images())
        assert torch.allclose(detach(model)(images()), fast, atol=2e-5)


def test_gradients_reach_every_weight_and_fit_the_plain_path() -> None:
    found = []
    for native in (True, False):
        model = vit().train()
        if native:
            attach(model)
        model.vit.reduction = Merging((0.3,))
        model(images()).square().sum().backward()
        found.append([each.grad for each in model.parameters()])
    assert all(each is not None and each.any() for each in found[0])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=2e-3 * float(other.abs().max()))


def test_the_class_token_is_never_merged() -> None:
    keys = torch.ones(8, 4)  # all alike
    into = matched(keys, Ends(torch.tensor([8])), torch.tensor([3]), near=False, first_stays=True)
    assert (into == into[0]).sum() == 1


def test_operations_are_counted() -> None:
    tokens, d, d_ff = 10, 4, 8
    all_of_it = ((torch.tensor([tokens]), torch.tensor([tokens])),)
    expected = 2 * (4 * tokens * d * d + 2 * tokens * tokens * d + 2 * tokens * d * d_ff)
    assert operations(all_of_it, d, d_ff, firsts=False) == expected
    one = ((torch.tensor([tokens]), torch.tensor([1])),)
    expected = 2 * (2 * tokens * d * d + 2 * d * d + 2 * tokens * d + 2 * d * d_ff)
    assert operations(one, d, d_ff, firsts=True) == expected


def test_noted_keys_and_attention() -> None:
    """What a block tells a reduction: the mean key of the heads, and attention received that is fair at 1."""
    block = vit().vit.blocks[0]
    from regard.nn import Apart

    ends = Ends(torch.tensor([5, 9]))
    x = torch.randn(14, 32, generator=torch.Generator().manual_seed(5))
    noted = AttentionStats()
    with torch.no_grad():
        block.self_attention(x, mask=Apart(ends, ends), noted=noted)
        attention = block.self_attention.sublayer.attention
        memory = attention.project_kv(block.self_attention.norm(x))
    assert torch.allclose(noted.keys, memory.keys.mean(0))
    assert noted.received[:5].sum().item() == pytest.approx(5, abs=1e-4)
    assert noted.received[5:].sum().item() == pytest.approx(9, abs=1e-4)
