"""Token merging: nothing at r = 0 to the bit, nothing by duplicates, the paper's rule, order kept, and undone."""

import pytest
import torch
from torch import nn

from regard.config import BertModel, VitModel
from regard.engine import run
from regard.nn import AttentionStats, Merging, ReducedTokens
from regard.nn.build import build_bert, build_vit
from regard.nn.token_reduction import match, merge, operations, reduce_tokens

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
        with torch.no_grad():
            native, plain = run(model, *given), model(*given)
            body.reduction = Merging(amounts)
            assert torch.equal(run(model, *given), native)
            merged = model(*given)
        if plain.dim() == 3:  # a score for each token: those at padding mean nothing
            merged, plain = merged[given[0] != 0], plain[given[0] != 0]
        assert torch.allclose(merged, plain, atol=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_merging_exact_duplicates_changes_nothing(dtype: torch.dtype, tolerance: float) -> None:
    """A row of tokens, each of which stands there twice: merged to one each, every token has the same vector."""
    blocks = vit().vit.to(dtype).blocks
    x = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)
    twice, nonpad = x.repeat_interleave(2, 1), torch.ones(2, 12, dtype=torch.bool)
    half = Merging((6.0, 0.0, 0.0), first_stays=False)
    with torch.no_grad():
        plain = reduce_tokens(blocks, twice, nonpad, Merging((0.0,)), first_only=False)
        found = reduce_tokens(blocks, twice, nonpad, half, first_only=False)
    assert found.lengths.tolist() == [6, 6]
    assert found.size.tolist() == [[2.0] * 6] * 2
    assert found.x.shape == (2, 6, 32)
    assert (found.unmerged() - plain.x).abs().max() / plain.x.abs().max() < tolerance


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
    lengths, counts = torch.tensor([9, 4, 12, 2, 1]), torch.tensor([3, 1, 4, 0, 0])
    keys, nonpad = torch.randn(5, 12, 8, generator=chance), torch.arange(12) < lengths.unsqueeze(1)
    target = match(keys, nonpad, counts, near=False, first_stays=first_stays)
    for row, (length, gone) in enumerate(zip(lengths.tolist(), counts.tolist(), strict=True)):
        own = target[row, :length].tolist()
        groups = [{place for place in range(length) if own[place] == new} for new in range(length - gone)]
        assert groups == by_hand(keys[row, :length], gone, first_stays)


def test_near_merges_stretches_only() -> None:
    model = bert().bert
    model.reduction = Merging((0.4,), near=True)
    ids, segments = texts(25, 14, 3)
    tokens = model.reduced(ids, segments, first_only=False)
    for row, length in enumerate((25, 14, 3)):
        index = tokens.index[row]
        assert (index[:length].diff() >= 0).all()  # stretches, in order
        assert (index[length:] == -1).all()
        assert int(index[length - 1]) + 1 == int(tokens.lengths[row])
        assert index[0] != index[1]  # [CLS] stays by itself
    assert tokens.x.size(1) == int(tokens.lengths.max()) < 12  # removed tokens are not computed
    assert tokens.size.sum() == 42


def test_a_merged_token_is_the_mean_weighed_by_size() -> None:
    nonpad = torch.ones(1, 3, dtype=torch.bool)
    tokens = ReducedTokens(torch.tensor([[[1.0], [4.0], [7.0]]]), nonpad, torch.tensor([[1.0, 3.0, 2.0]]))
    found = merge(tokens, torch.tensor([[0, 0, 1]]), torch.tensor([2]))
    assert found.x.flatten().tolist() == [pytest.approx((1 + 12) / 4), 7.0]
    assert found.size.tolist() == [[4.0, 2.0]]
    assert found.means().item() == pytest.approx((1 + 12 + 14) / 6)
    again = merge(found, torch.tensor([[0, 0]]), torch.tensor([1]))
    assert again.x.item() == pytest.approx((1 + 12 + 14) / 6)
    assert again.index.tolist() == [[0, 0, 0]]
    assert found.bias.exp().flatten().tolist() == pytest.approx([4.0, 2.0])


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
        counts = model.reduced(images(), Merging(amounts)).counts
        counted[amounts] = [int(after[0]) for _, after in counts]
    assert counted == {(0.25,): [13, 10, 1], (4.0,): [13, 9, 1], (0.25, 3.0): [13, 10, 1], (100.0,): [9, 5, 1]}


@pytest.mark.parametrize("read", ["class", "mean"])
def test_engine_and_plain_modules_agree_on_images(read: str) -> None:
    model = vit(VitModel(**{**{name: getattr(VIT, name) for name in VIT.__dataclass_fields__}, "read": read}))
    model.vit.reduction = Merging((0.3,), first_stays=read == "class")
    with torch.no_grad():
        assert torch.allclose(run(model, images()), model(images()), atol=2e-5)


@pytest.mark.parametrize("head", ["classes", "tags", "span"])
def test_engine_and_plain_modules_agree_on_texts(head: str) -> None:
    """Of different lengths, so that the plain batch has padding in every layer.

    In the last layer keys are equal up to rounding, and so the choice of pairs is not defined: none is merged.
    """
    model = bert(head)
    model.bert.reduction = Merging((0.3, 0.3), near=True)
    given = texts(25, 14, 3, 1)
    with torch.no_grad():
        assert torch.allclose(run(model, *given), model(*given), atol=2e-5)


def test_gradients_reach_every_weight_and_fit_the_plain_modules() -> None:
    found = []
    for call in (run, nn.Module.__call__):
        model = vit().train()
        model.vit.reduction = Merging((0.3,))
        call(model, images()).square().sum().backward()
        found.append([each.grad for each in model.parameters()])
    assert all(each is not None and each.any() for each in found[0])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=2e-3 * float(other.abs().max()))


def test_the_class_token_is_never_merged() -> None:
    keys, nonpad = torch.ones(1, 8, 4), torch.ones(1, 8, dtype=torch.bool)  # all alike
    target = match(keys, nonpad, torch.tensor([3]), near=False, first_stays=True)[0]
    assert (target == target[0]).sum() == 1


def test_operations_are_counted() -> None:
    tokens, d, d_ff = 10, 4, 8
    all_of_it = ((torch.tensor([tokens]), torch.tensor([tokens])),)
    expected = 2 * (4 * tokens * d * d + 2 * tokens * tokens * d + 2 * tokens * d * d_ff)
    assert operations(all_of_it, d, d_ff, first_only=False) == expected
    one = ((torch.tensor([tokens]), torch.tensor([1])),)
    expected = 2 * (2 * tokens * d * d + 2 * d * d + 2 * tokens * d + 2 * d * d_ff)
    assert operations(one, d, d_ff, first_only=True) == expected


def test_statistics_of_attention() -> None:
    """The mean key of the heads, and the attention received from tokens that are not padding, 1 on average."""
    block, lengths = vit().vit.blocks[0], torch.tensor([5, 9])
    nonpad = torch.arange(9) < lengths.unsqueeze(1)
    x = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(5))
    stats = AttentionStats(nonpad)
    with torch.no_grad():
        block.self_attention(x, mask=nonpad.unsqueeze(1), stats=stats)
        attention = block.self_attention.sublayer.attention
        memory = attention.project_kv(block.self_attention.norm(x))
    assert torch.allclose(stats.keys, memory.keys.mean(1))
    assert stats.received.sum(1).tolist() == pytest.approx([5, 9], abs=1e-4)
    assert not stats.received[~nonpad].any()
