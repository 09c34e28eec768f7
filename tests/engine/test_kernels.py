"""Every kernel against its plain twin, with the same chance, which PyTorch draws here byte for byte."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from regard.attention import Apart, Ends, MultiHead
from regard.attention.apart import attend_apart
from regard.attention.attend import plain
from regard.attention.score import ScaledDot
from regard.config import TransformerModel
from regard.data.batches import Batch, Batches
from regard.engine import find_library, kernels
from regard.layers import FeedForward, Residual, SelfAttention, dropout, feedforward
from regard.models import transformer
from regard.models.build import build
from regard.text import Tokenizer
from regard.training import blockloss
from regard.training.objective import PairObjective

PADDING = Tokenizer.padding

pytestmark = pytest.mark.skipif(kernels() is None, reason=find_library()[1])


def chance_bytes(numbers: Tensor, seed: int) -> Tensor:
    """The kernels' byte number e of a seed's endless row, for every e."""

    def stir(h: Tensor) -> Tensor:
        h = h ^ (h >> 16)
        h = (h * 0x21F0AAAD) & 0xFFFFFFFF
        h = h ^ (h >> 15)
        h = (h * 0x735A2D97) & 0xFFFFFFFF
        return h ^ (h >> 15)

    low, high = seed & 0xFFFFFFFF, seed >> 32
    block = numbers // 32
    word = ((block * 8) & 0xFFFFFFFF) + (numbers % 32) // 4
    word = stir(stir((word + low) & 0xFFFFFFFF) ^ high ^ (block >> 29))
    return (word >> (8 * (numbers % 4))) & 0xFF


def kept(shape: tuple[int, ...], dropped: int, seed: int) -> Tensor:
    numbers = torch.arange(torch.Size(shape).numel())
    return (chance_bytes(numbers, seed) >= dropped).float().view(shape) * (256 / (256 - dropped))


@pytest.mark.parametrize("shape", [(1,), (31,), (32,), (7, 33), (300, 64)])
@pytest.mark.parametrize("dropped", [1, 26, 77, 255])
def test_dropout_added_onto_its_neighbour(shape: tuple[int, ...], dropped: int) -> None:
    torch.manual_seed(3)
    x, y = (torch.randn(shape, requires_grad=True) for _ in range(2))
    seed = 0x1234_5678_9ABC_DEF0 >> 1
    out = dropout.dropped(y, dropped, onto=x, seed=seed)
    twin = x + y * kept(shape, dropped, seed)
    assert torch.allclose(out, twin, atol=1e-6)
    upstream = torch.randn(shape)
    for ours, theirs in zip(
        torch.autograd.grad(out, (x, y), upstream), torch.autograd.grad(twin, (x, y), upstream), strict=True
    ):
        assert torch.allclose(ours, theirs, atol=1e-6)


def test_the_share_dropped_is_the_one_asked_for_and_bytes_do_not_repeat() -> None:
    x = torch.ones(1_000_000)
    for probability in (0.1, 0.5):
        layer = dropout.Dropout(probability).train()
        share = float((layer(x) == 0).float().mean())
        assert share == pytest.approx(layer.bytes / 256, abs=0.002)
    numbers = torch.arange(1_000_000)
    one, other = chance_bytes(numbers, 5), chance_bytes(numbers, 6)
    assert float((one == other).float().mean()) == pytest.approx(1 / 256, abs=5e-4)
    assert float((one[1:] == one[:-1]).float().mean()) == pytest.approx(1 / 256, abs=5e-4)


@pytest.mark.parametrize("size", [(5, 8, 32), (40, 16, 96), (3, 8, 20)])
@pytest.mark.parametrize("dropped", [0, 51])
def test_relu_and_dropout_after_the_wide_product(size: tuple[int, int, int], dropped: int) -> None:
    torch.manual_seed(0)
    rows, narrow, wide = size
    layer = FeedForward(narrow, wide).train()
    nn.init.normal_(layer.widen.bias)
    x = torch.randn(rows, narrow, requires_grad=True)
    out = feedforward.widened(x, layer.widen, dropped, seed=99)
    padded = -(-wide // 32) * 32
    mask = kept((rows, padded), dropped, 99)[:, :wide] if dropped else torch.ones(rows, wide)
    twin = torch.relu(layer.widen(x)) * mask
    assert torch.allclose(out, twin, atol=1e-5)
    wanted = (x, layer.widen.weight, layer.widen.bias)
    upstream = torch.randn(rows, wide)
    for ours, theirs in zip(
        torch.autograd.grad(out, wanted, upstream), torch.autograd.grad(twin, wanted, upstream), strict=True
    ):
        assert torch.allclose(ours, theirs, atol=1e-4)


LENGTHS = [(3, 5), (1, 1), (17, 9), (8, 8), (2, 40), (33, 16)]


def tokens(lengths: list[int], heads: int, size: int) -> tuple[Tensor, Ends]:
    return torch.randn(heads, sum(lengths), size, requires_grad=True), Ends(torch.tensor(lengths))


def same_as_the_plain_way(residual: Residual, told: Sequence[Tensor], **options: object) -> None:
    """A sublayer at once and part by part, with the same chance: what it says, and every gradient."""
    for each in residual.train().parameters():
        nn.init.normal_(each, std=0.3)
    wanted = (*told, *residual.parameters())
    upstream = torch.randn_like(told[0])
    found = []
    for watching in (False, True):  # what is watched goes part by part
        seen: list[object] = []
        hook = residual.sublayer.register_forward_hook(lambda *given, seen=seen: seen.append(given))
        if not watching:
            hook.remove()
        torch.manual_seed(5)
        out = residual.at_once(*told, **options)
        assert (out is None) == watching
        if out is None:
            torch.manual_seed(5)
            out = residual(*plainly(residual.sublayer, *told), **options)
        assert len(seen) == watching
        found.append((out, *torch.autograd.grad(out, wanted, upstream)))
        hook.remove()
    assert torch.allclose(found[0][0], found[1][0], atol=1e-5)
    for ours, theirs in zip(*found, strict=True):
        assert torch.allclose(ours, theirs, atol=2e-4, rtol=1e-4)


def plainly(sublayer: nn.Module, x: Tensor, *source: Tensor) -> tuple[object, ...]:
    """A source as attention wants it."""
    return (x, *(sublayer.remember(each) for each in source)) if isinstance(sublayer, MultiHead) else (x,)


@pytest.mark.parametrize("size", [(1, 8, 32), (70, 16, 96), (203, 20, 40), (400, 128, 256)])
@pytest.mark.parametrize("probability", [0.0, 0.3])
def test_a_thought_with_its_norm_and_the_path_around_it(size: tuple[int, int, int], probability: float) -> None:
    torch.manual_seed(0)
    rows, narrow, wide = size
    network = FeedForward(narrow, wide, dropout=probability)
    residual = Residual(network, nn.LayerNorm(narrow), "pre", probability)
    same_as_the_plain_way(residual, [torch.randn(rows, narrow, requires_grad=True)])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "width"), [(1, 8), (4, 128), (3, 120)])
@pytest.mark.parametrize("probability", [0.0, 0.3])
def test_a_look_at_itself_with_its_norm_and_the_path_around_it(
    causal: bool, heads: int, width: int, probability: float
) -> None:
    torch.manual_seed(0)
    x, ends = tokens([query for query, _ in LENGTHS], 1, width)
    attention = SelfAttention(MultiHead(width, heads, dropout=probability))
    residual = Residual(attention, nn.LayerNorm(width), "pre", probability)
    same_as_the_plain_way(residual, [x[0].detach().requires_grad_()], may_look=Apart(ends, ends, causal))


@pytest.mark.parametrize("probability", [0.0, 0.3])
@pytest.mark.parametrize("key_bias", [False, True])
def test_a_look_at_a_source_with_its_norm_and_the_path_around_it(probability: float, key_bias: bool) -> None:
    torch.manual_seed(0)
    (x, asking), (source, asked) = (tokens([each[side] for each in LENGTHS], 1, 64) for side in (0, 1))
    attention = MultiHead(64, 2, dropout=probability, key_bias=key_bias)
    residual = Residual(attention, nn.LayerNorm(64), "pre", probability)
    told = [x[0].detach().requires_grad_(), source[0].detach().requires_grad_()]
    same_as_the_plain_way(residual, told, may_look=Apart(asking, asked))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "size"), [(1, 8), (4, 32), (3, 40)])
def test_attention_within_sentences(causal: bool, heads: int, size: int) -> None:
    torch.manual_seed(1)
    query_lengths = [query for query, _ in LENGTHS]
    key_lengths = query_lengths if causal else [key for _, key in LENGTHS]
    (query, asking), (keys, asked) = tokens(query_lengths, heads, size), tokens(key_lengths, heads, size)
    values, _ = tokens(key_lengths, heads, size)
    apart = Apart(asking, asked, causal)
    rows = tuple(each.transpose(0, 1).contiguous().transpose(0, 1) for each in (query, keys, values))
    out = attend_apart(*rows, apart)
    assert out is not None
    scores = ScaledDot().compare(asking.side_by_side(query), asked.side_by_side(keys))
    twin = asking.end_to_end(plain(scores, asked.side_by_side(values), may_look=apart.mask()))
    assert torch.allclose(out, twin, atol=1e-5)
    upstream = torch.randn_like(out)
    for ours, theirs in zip(
        torch.autograd.grad(out, (query, keys, values), upstream),
        torch.autograd.grad(twin, (query, keys, values), upstream),
        strict=True,
    ):
        assert torch.allclose(ours, theirs, atol=1e-4)


def test_dropout_of_weights_keeps_the_mean_and_has_the_gradient_of_what_it_did() -> None:
    torch.manual_seed(2)
    query, ends = tokens([64] * 40, 4, 32)
    values = torch.ones(4, 64 * 40, 32)
    rows = tuple(each.detach().transpose(0, 1).contiguous().transpose(0, 1) for each in (query, query, values))
    out = attend_apart(*rows, Apart(ends, ends), dropout=0.25)
    assert out is not None
    assert float(out.mean()) == pytest.approx(1.0, abs=0.01)
    assert float(out.std()) > 0.01
    for each in rows:
        each.requires_grad_()
    direction = [torch.randn_like(each) for each in rows]
    upstream = torch.randn_like(out)

    def loss(step: float) -> Tensor:
        torch.manual_seed(7)  # the same weights are dropped
        moved = [each.detach() + step * way for each, way in zip(rows, direction, strict=True)]
        found = attend_apart(*moved, Apart(ends, ends), dropout=0.25)
        assert found is not None
        return (found * upstream).double().sum()

    torch.manual_seed(7)
    again = attend_apart(*rows, Apart(ends, ends), dropout=0.25)
    assert again is not None
    gradients = torch.autograd.grad(again, rows, upstream)
    slope = sum(float((g.double() * way).sum()) for g, way in zip(gradients, direction, strict=True))
    measured = float(loss(1e-2) - loss(-1e-2)) / 2e-2
    assert slope == pytest.approx(measured, rel=2e-2)


def test_attention_takes_sentences_end_to_end_in_place_of_a_mask() -> None:
    torch.manual_seed(4)
    attention = MultiHead(16, 2).eval()
    ids = torch.tensor([[5, 6, 7, 0], [8, 9, 0, 0], [1, 2, 3, 4]])
    x, ends = torch.randn(3, 4, 16), Ends.of(ids, 0)
    side = attention(x, attention.remember(x), may_look=(ids != 0).unsqueeze(1))
    flat = x[ends.real]
    out = attention(flat, attention.remember(flat), may_look=Apart(ends, ends))
    assert torch.allclose(out, side[ends.real], atol=1e-6)


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain PyTorch everywhere, with the masks the kernels would have had, sentences still end to end."""
    monkeypatch.setattr("regard.attention.apart.kernels", lambda: None)
    monkeypatch.setattr("regard.engine.gemm.kernels", lambda: None)
    monkeypatch.setattr(blockloss, "kernels", lambda: None)
    monkeypatch.setattr(
        dropout, "kept_scaled", lambda x, dropped: kept(tuple(x.shape), dropped, dropout.chance())
    )


def curve(steps: int) -> list[float]:
    torch.manual_seed(11)
    model = build(
        TransformerModel(encoder_layers=2, decoder_layers=2, d_model=32, heads=4, d_ff=64, dropout=0.2),
        60,
        60,
        PADDING,
    )
    # A ReLU within a rounding of 0 opens here and not there: short steps over many tokens keep that as small as it is.
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-4)
    objective = PairObjective(model.train(), PADDING, 0.1)
    generator = torch.Generator().manual_seed(5)
    pairs = []
    for _ in range(800):
        words = torch.randint(4, 60, (int(torch.randint(3, 12, (), generator=generator)),), generator=generator)
        pairs.append((words.tolist(), words.flip(0).tolist()))
    batches = list(Batches.of_pairs(pairs, 512, 64))
    losses = []
    for number in range(steps):
        batch: Batch = batches[number * 7 % len(batches)]
        torch.manual_seed(number)
        loss = objective(batch) / batch.tokens
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.item())
    return losses


def test_200_steps_have_the_loss_curve_of_the_plain_twin(request: pytest.FixtureRequest) -> None:
    ours = curve(200)
    request.getfixturevalue("without_kernels")
    twin = curve(200)
    assert transformer.kernels() is not None  # both lie end to end, so that masks fall on the same elements
    assert max(abs(one - other) for one, other in zip(ours, twin, strict=True)) < 1e-4
    assert ours[-1] < ours[0] - 0.5
