"""Encoder and decoder blocks equal PyTorch's, and step by step equals all at once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck

from regard.nn import (
    Alibi,
    BlockShape,
    DecoderBlock,
    EncoderBlock,
    KvCache,
    KvCacheStep,
    Learned,
    MultiHead,
    Position,
    Relative,
    Rotary,
    SelfAttention,
    Sinusoidal,
    causal_mask,
    length_mask,
)
from regard.nn.residual import Residual

D_MODEL, HEADS, D_FF = 12, 3, 20
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
DTYPES = [torch.float32, torch.float64]
quick = settings(max_examples=15, deadline=None, derandomize=True)

SCHEMES = {
    "none": Position,
    "sinusoidal": lambda: Sinusoidal(D_MODEL, prepared=6),
    "learned": lambda: Learned(D_MODEL, 64),
    "relative": lambda: Relative(D_MODEL // HEADS, reach=3),
    "rotary": lambda: Rotary(D_MODEL // HEADS),
    "alibi": lambda: Alibi(HEADS),
}


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=TOLERANCE[actual.dtype])


def shape(norm: str = "post", activation: str = "relu", dropout: float = 0.0) -> BlockShape:
    return BlockShape(D_MODEL, HEADS, D_FF, dropout=dropout, norm=norm, activation=activation)


def shake(module: nn.Module) -> None:
    """Give every parameter a value that is not its start, so that zeros and ones hide nothing."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)


@torch.no_grad()
def copy_attention(ours: MultiHead, theirs: nn.MultiheadAttention) -> None:
    for mine, matrix, row in zip(
        (ours.query, ours.key, ours.value),
        theirs.in_proj_weight.chunk(3),
        theirs.in_proj_bias.chunk(3),
        strict=True,
    ):
        mine.weight.copy_(matrix)
        if mine.bias is not None:  # ours has none on keys: softmax does not see it
            mine.bias.copy_(row)
    ours.output.load_state_dict(theirs.out_proj.state_dict())


def copy_feed_forward(ours: Residual, theirs: nn.Module, norm: nn.LayerNorm) -> None:
    ours.sublayer.fc1.load_state_dict(theirs.linear1.state_dict())
    ours.sublayer.fc2.load_state_dict(theirs.linear2.state_dict())
    ours.norm.load_state_dict(norm.state_dict())


def encoders(dtype: torch.dtype, norm: str, activation: str) -> tuple[EncoderBlock, nn.TransformerEncoderLayer]:
    torch.manual_seed(3)
    theirs = nn.TransformerEncoderLayer(
        D_MODEL, HEADS, D_FF, 0.1, activation, batch_first=True, norm_first=norm == "pre", dtype=dtype
    )
    shake(theirs)
    ours = EncoderBlock(shape(norm, activation, dropout=0.1)).to(dtype)
    copy_attention(ours.self_attention.sublayer.attention, theirs.self_attn)
    ours.self_attention.norm.load_state_dict(theirs.norm1.state_dict())
    copy_feed_forward(ours.feed_forward, theirs, theirs.norm2)
    return ours.eval(), theirs.eval()


def decoders(dtype: torch.dtype, norm: str, activation: str) -> tuple[DecoderBlock, nn.TransformerDecoderLayer]:
    torch.manual_seed(3)
    theirs = nn.TransformerDecoderLayer(
        D_MODEL, HEADS, D_FF, 0.1, activation, batch_first=True, norm_first=norm == "pre", dtype=dtype
    )
    shake(theirs)
    ours = DecoderBlock(shape(norm, activation, dropout=0.1)).to(dtype)
    copy_attention(ours.self_attention.sublayer.attention, theirs.self_attn)
    ours.self_attention.norm.load_state_dict(theirs.norm1.state_dict())
    copy_attention(ours.cross_attention.sublayer, theirs.multihead_attn)
    ours.cross_attention.norm.load_state_dict(theirs.norm2.state_dict())
    copy_feed_forward(ours.feed_forward, theirs, theirs.norm3)
    return ours.eval(), theirs.eval()


# Parity. Gradients stay switched on: without them PyTorch takes a fast path of its own.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("masked", ["none", "padding", "causal", "both"])
def test_an_encoder_block_equals_pytorchs(dtype, norm, activation, masked):
    ours, theirs = encoders(dtype, norm, activation)
    x = torch.randn(3, 6, D_MODEL, dtype=dtype)
    padding, causal = length_mask(torch.tensor([6, 4, 1]), 6), causal_mask(6)
    mask = {"none": None, "padding": padding, "causal": causal, "both": padding & causal}[masked]
    expected = theirs(
        x,
        src_mask=~causal[0] if masked in ("causal", "both") else None,
        src_key_padding_mask=~padding[:, 0] if masked in ("padding", "both") else None,
    )
    close(ours(x, mask=mask), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_decoder_block_equals_pytorchs(dtype, norm, activation):
    ours, theirs = decoders(dtype, norm, activation)
    x, encoded = (torch.randn(3, n, D_MODEL, dtype=dtype) for n in (5, 7))
    causal, own = causal_mask(5), length_mask(torch.tensor([5, 2, 3]), 5)
    source = length_mask(torch.tensor([4, 7, 1]), 7)
    expected = theirs(
        x,
        encoded,
        tgt_mask=~causal[0],
        tgt_key_padding_mask=~own[:, 0],
        memory_key_padding_mask=~source[:, 0],
    )
    close(ours(x, ours.project_kv(encoded), mask=causal & own, source_mask=source), expected)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_gradients_of_a_decoder_block_equal_pytorchs(norm):
    ours, theirs = decoders(torch.float64, norm, "relu")
    x, encoded = (torch.randn(2, n, D_MODEL, dtype=torch.float64) for n in (4, 3))
    leaves = [[t.clone().requires_grad_() for t in (x, encoded)] for _ in range(2)]
    ours(leaves[0][0], ours.project_kv(leaves[0][1]), mask=causal_mask(4)).sin().sum().backward()
    theirs(*leaves[1], tgt_mask=~causal_mask(4)[0]).sin().sum().backward()
    for mine, other in zip(*leaves, strict=True):
        close(mine.grad, other.grad)
    close(ours.feed_forward.sublayer.fc1.weight.grad, theirs.linear1.weight.grad)


# Padding


@pytest.mark.parametrize("norm", ["pre", "post"])
@quick
@given(
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**32),
    length=st.integers(1, 5),
    more=st.integers(1, 5),
    content=st.floats(-1e6, 1e6),
)
def test_padding_never_changes_a_block_or_its_gradients(norm, dtype, seed, length, more, content):
    torch.manual_seed(seed)
    block = EncoderBlock(shape(norm)).to(dtype)
    x = torch.randn(1, length, D_MODEL, dtype=dtype)

    def run(padding: int) -> tuple[Tensor, Tensor]:
        junk = torch.full((1, padding, D_MODEL), content, dtype=dtype)
        whole = torch.cat([x, junk], 1).requires_grad_()
        out = block(whole, mask=length_mask(torch.tensor([length]), length + padding))[:, :length]
        out.sin().sum().backward()
        assert (whole.grad[:, length:] == 0).all()
        return out.detach(), whole.grad[:, :length]

    for padded, bare in zip(run(more), run(0), strict=True):
        close(padded, bare)


def test_a_longer_padded_source_never_changes_a_decoder_block():
    torch.manual_seed(0)
    block = DecoderBlock(shape()).double()
    x, encoded, junk = (torch.randn(2, n, D_MODEL, dtype=torch.float64) for n in (4, 3, 5))
    bare = block(x, block.project_kv(encoded), mask=causal_mask(4))
    padded = block(
        x,
        block.project_kv(torch.cat([encoded, 1e6 * junk], 1)),
        mask=causal_mask(4),
        source_mask=length_mask(torch.tensor([3, 3]), 8),
    )
    close(padded, bare)


# Cached equals full


@pytest.mark.parametrize("scheme", list(SCHEMES))
@pytest.mark.parametrize("cross", [True, False], ids=["cross", "alone"])
@quick
@given(
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**32),
    chunks=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    rows=st.lists(st.integers(0, 1), min_size=1, max_size=3),
)
def test_a_decoder_block_step_by_step_equals_the_whole(scheme, cross, dtype, seed, chunks, rows):
    torch.manual_seed(seed)
    block = DecoderBlock(shape("pre"), SCHEMES[scheme], cross=cross).to(dtype).eval()
    embed = block.self_attention.sublayer.attention.position.embed
    x, encoded = (torch.randn(2, n, D_MODEL, dtype=dtype) for n in (2 + sum(chunks), 4))
    source_mask, index, cache = length_mask(torch.tensor([4, 2]), 4), torch.tensor(rows), KvCache(capacity=2)
    with torch.no_grad():
        source = block.project_kv(encoded) if cross else None
        whole = block(embed(x), source, mask=causal_mask(x.size(1)), source_mask=source_mask)
        step = KvCacheStep(cache)
        first = block(embed(x[:, :2]), source, mask=causal_mask(2), source_mask=source_mask, cache=step)
        close(first, whole[:, :2])

        cache, source = step.cache.select(index), source and source.select(index)
        for chunk in x[index, 2:].split(chunks, dim=1):
            start, end = cache.length, cache.length + chunk.size(1)
            step = KvCacheStep(cache)
            found = block(
                embed(chunk, start),
                source,
                mask=causal_mask(chunk.size(1), end),
                source_mask=source_mask[index],
                cache=step,
            )
            close(found, whole[index, start:end])
            cache = step.cache


# Gradients


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "swiglu"])
def test_the_gradients_of_an_encoder_block_are_right(norm, activation):
    torch.manual_seed(0)
    block = EncoderBlock(BlockShape(4, 2, 3, dropout=0.0, norm=norm, activation=activation)).double()
    shake(block)
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    mask = length_mask(torch.tensor([2]), 3)
    # The parameters are changed in place by gradcheck, so naming them as inputs is enough.
    assert gradcheck(lambda x, *_: block(x, mask=mask), (x, *block.parameters()))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_gradients_of_a_decoder_block_are_right(norm):
    torch.manual_seed(0)
    block = DecoderBlock(BlockShape(4, 2, 3, dropout=0.0, norm=norm, activation="gelu"), lambda: Relative(2, 1))
    block.double()
    shake(block)
    x, encoded = (torch.randn(1, n, 4, dtype=torch.float64, requires_grad=True) for n in (2, 3))
    source = length_mask(torch.tensor([2]), 3)

    def run(x, encoded, *_):
        return block(x, block.project_kv(encoded), mask=causal_mask(2), source_mask=source)

    assert gradcheck(run, (x, encoded, *block.parameters()))


# Shape


def test_the_defaults_are_the_papers_base_model():
    base = BlockShape()
    assert (base.d_model, base.heads, base.d_ff, base.dropout) == (512, 8, 2048, 0.1)
    assert (base.norm, base.activation) == ("post", "relu")
    attention, feed_forward, norm = 4 * 512 * 512 + 3 * 512, 2 * 512 * 2048 + 2048 + 512, 2 * 512
    with torch.device("meta"):
        encoder, decoder = EncoderBlock(base), DecoderBlock(base)
    assert count(encoder) == attention + feed_forward + 2 * norm
    assert count(decoder) == 2 * attention + feed_forward + 3 * norm


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_each_layer_has_a_position_scheme_of_its_own_and_none_in_cross_attention():
    block = DecoderBlock(shape(), lambda: Relative(D_MODEL // HEADS))
    other = DecoderBlock(shape(), lambda: Relative(D_MODEL // HEADS))
    own = block.self_attention.sublayer.attention.position
    assert isinstance(own, Relative)
    assert own is not other.self_attention.sublayer.attention.position
    assert type(block.cross_attention.sublayer.position) is Position


def test_without_cross_attention_a_decoder_block_sees_itself_alone():
    torch.manual_seed(0)
    alone = DecoderBlock(shape(), cross=False)
    encoder = EncoderBlock(shape())
    encoder.load_state_dict(alone.state_dict())
    x = torch.randn(2, 4, D_MODEL)
    assert torch.equal(alone(x, mask=causal_mask(4)), encoder(x, mask=causal_mask(4)))
    with pytest.raises(ValueError, match="built without cross-attention"):
        alone.project_kv(x)


def test_a_forgotten_source_is_refused():
    with pytest.raises(ValueError, match="pass the keys and values from `project_kv`"):
        DecoderBlock(shape())(torch.zeros(1, 2, D_MODEL))


def test_self_attention_looks_at_itself():
    torch.manual_seed(0)
    attention = MultiHead(8, 2)
    x = torch.randn(2, 3, 8)
    assert torch.equal(SelfAttention(attention)(x), attention(x, attention.project_kv(x)))


def test_dropout_acts_while_training_only():
    torch.manual_seed(0)
    block = EncoderBlock(shape(dropout=0.3))
    x = torch.randn(2, 4, D_MODEL)
    assert not torch.allclose(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))
