"""Token reduction on padded batches and on packed ones by the kernels: the same values and gradients."""

from collections.abc import Callable

import pytest
import torch
from support.padded_calls import first_of_bert, hidden_of_bert, run_padded
from torch import Tensor, nn

from regard.config.models import BertConfig, VitConfig
from regard.engine import run
from regard.engine.plan import supports
from regard.engine.token_reduction import PackedTokens, reduce_packed
from regard.nn import Merging, Packed, Pruning, ReducedTokens, reduce_tokens
from regard.nn.build import build_bert, build_vit

SHAPE = {"layers": 3, "d_model": 32, "heads": 4, "d_ff": 48, "dropout": 0.0, "attention_dropout": 0.0}
LENGTHS = (20, 11, 1, 2, 7)


def pruning(threshold: float) -> Pruning:
    """Learned thresholds, as they are used outside training."""
    made = Pruning(3, hard=True)
    made.thresholds.data.fill_(threshold)
    return made


REDUCTIONS: dict[str, Callable[[], Merging | Pruning]] = {
    "merge 0.3": lambda: Merging((0.3,)),
    "merge 2, then 0.5": lambda: Merging((2.0, 0.5)),
    "merge all": lambda: Merging((100.0,)),
    "merge the first too": lambda: Merging((0.4,), first_stays=False),
    "merge neighbours": lambda: Merging((0.4,), neighbors_only=True),
    "merge nothing": lambda: Merging((0.0,)),
    "prune": lambda: pruning(0.95),
    "prune all but the first": lambda: pruning(100.0),
    "prune nothing": lambda: pruning(0.0),
}


def shaken(model: nn.Module) -> nn.Module:
    for name, each in model.named_parameters():
        if "thresholds" not in name:
            nn.init.normal_(each, std=0.3)
    return model.eval()


def bert(head: str) -> nn.Module:
    torch.manual_seed(0)
    return shaken(build_bert(BertConfig(**SHAPE, max_length=30), head, 50, 0, 3))  # type: ignore[arg-type]


def vit(pooling: str) -> nn.Module:
    torch.manual_seed(0)
    config = VitConfig(**SHAPE, patch=2, height=8, width=8, channels=1, pooling=pooling)  # type: ignore[arg-type]
    return shaken(build_vit(config, 5))


def texts() -> tuple[Tensor, Tensor]:
    ids = torch.randint(1, 50, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(2))
    ids = ids.masked_fill(torch.arange(max(LENGTHS)) >= torch.tensor(LENGTHS).unsqueeze(1), 0)
    return ids, (ids > 25).long()


def images() -> Tensor:
    return torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def both(body: nn.Module, reduction: str, *, first_only: bool) -> tuple[ReducedTokens, PackedTokens]:
    """The blocks of a BERT over texts, padded and packed."""
    ids, segments = texts()
    reducer, nonpad = REDUCTIONS[reduction](), ids != 0
    found = supports(body, "hidden states")
    assert found is not None
    with torch.no_grad():
        embedded = body.embed(ids, segments)
        padded = reduce_tokens(body.blocks, embedded, nonpad, reducer, first_only=first_only)
        packed = reduce_packed(
            found.stacks[0], Packed.from_padded(embedded, nonpad), reducer, first_only=first_only
        )
    return padded, packed


@pytest.mark.parametrize("reduction", list(REDUCTIONS))
def test_the_same_tokens_remain(reduction: str) -> None:
    padded, packed = both(bert("none").bert, reduction, first_only=False)
    assert padded.lengths.tolist() == packed.tokens.lengths.tolist()
    assert torch.allclose(padded.x[padded.nonpad], packed.x, atol=1e-4)
    assert (padded.size is None) == (packed.size is None)
    if padded.size is not None and packed.size is not None:
        assert torch.equal(padded.size[padded.nonpad], packed.size)
    ids, _ = texts()
    assert torch.allclose(padded.unmerged()[ids != 0], packed.unmerged(), atol=1e-4)
    assert torch.allclose(padded.means(), packed.means(), atol=1e-4)
    assert (padded.index is None) == (packed.index is None)
    if padded.index is not None and packed.index is not None:
        starts = packed.tokens.offsets[:-1].long().repeat_interleave(torch.tensor(LENGTHS))
        local = torch.where(packed.index < 0, -1, packed.index - starts)
        assert torch.equal(padded.index[ids != 0], local)


@pytest.mark.parametrize("reduction", list(REDUCTIONS))
def test_the_first_token_alone_is_the_first_of_all(reduction: str) -> None:
    body = bert("none").bert
    everything, _ = both(body, reduction, first_only=False)
    padded, packed = both(body, reduction, first_only=True)
    assert padded.x.shape == (len(LENGTHS), 1, 32)
    assert torch.allclose(padded.x[:, 0], packed.x, atol=1e-4)
    if reduction != "merge the first too":  # there the last block may still merge it
        assert torch.allclose(padded.x[:, 0], everything.x[:, 0], atol=1e-4)


def agree(native: Callable[[], Tensor], plain: Callable[[], Tensor], model: nn.Module) -> None:
    """Values, and gradients of a random projection."""
    found = []
    for forward in (native, plain):
        model.zero_grad()
        value = forward()
        weights = torch.randn(value.shape, generator=torch.Generator().manual_seed(5))
        (value * weights).sum().backward()
        grads = {
            name: torch.zeros_like(each) if each.grad is None else each.grad.clone()
            for name, each in model.named_parameters()
        }
        found.append((value.detach(), grads))
    (value, grads), (expected, expected_grads) = found
    assert torch.allclose(value, expected, atol=1e-4)
    largest = max(float(each.abs().max()) for each in expected_grads.values())
    for name, each in expected_grads.items():
        assert torch.allclose(grads[name], each, atol=2e-3 * float(each.abs().max()) + 1e-6 * largest), name


@pytest.mark.parametrize("reduction", list(REDUCTIONS))
def test_berts_values_and_gradients(reduction: str) -> None:
    model = bert("tags").bert
    model.reduction = REDUCTIONS[reduction]()
    ids, segments = texts()
    places = torch.tensor([0, 21, 5, 85])
    agree(lambda: hidden_of_bert(model, ids, segments), lambda: model(ids, segments), model)
    agree(
        lambda: hidden_of_bert(model, ids, segments, places),
        lambda: model(ids, segments, positions=places),
        model,
    )
    agree(lambda: first_of_bert(model, ids, segments), lambda: model.first(ids, segments), model)


@pytest.mark.parametrize("head", ["classes", "tags", "span", "none"])
@pytest.mark.parametrize("reduction", ["merge 0.3", "prune"])
def test_heads_of_bert(head: str, reduction: str) -> None:
    model = bert(head)
    model.bert.reduction = REDUCTIONS[reduction]()
    ids, segments = texts()
    with torch.no_grad():
        found, expected = run_padded(model, ids, segments), model(ids, segments)
    if head == "tags":  # those at padding mean nothing
        found, expected = found[ids != 0], expected[ids != 0]
    assert torch.allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("reduction", list(REDUCTIONS))
@pytest.mark.parametrize("pooling", ["class", "mean"])
def test_vits_values_and_gradients(pooling: str, reduction: str) -> None:
    model = vit(pooling)
    model.vit.reduction = REDUCTIONS[reduction]()
    pixels = images()
    agree(lambda: run(model, pixels), lambda: model(pixels), model)


def test_reduction_with_dropout_acts_in_training() -> None:
    """`encode` and `reduce_packed` apply the dropout of the embeddings and of every sublayer."""
    torch.manual_seed(0)
    config = VitConfig(**{**SHAPE, "dropout": 0.3}, patch=2, height=8, width=8, channels=1)  # type: ignore[arg-type]
    model = shaken(build_vit(config, 5)).train()
    model.vit.reduction = Merging((0.3,))
    for forward in (run, nn.Module.__call__):
        assert not torch.allclose(forward(model, images()), forward(model, images()), atol=1e-3)
