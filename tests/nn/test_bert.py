"""BERT: the paper's sizes, PyTorch's own encoder as reference, padding that changes nothing, heads that train."""

import pytest
import torch
from support.padded_calls import hidden_of_bert
from support.pytorch_encoder import pytorch_encoder_layer
from torch import nn
from torch.nn import functional

from regard.config.models import BertConfig
from regard.nn import Recorder
from regard.nn.bert import Bert
from regard.nn.build import build_bert

PAD = 0
SHAPE = {"layers": 2, "d_model": 32, "heads": 4, "d_ff": 48, "max_length": 20}


def small(head: str = "none", labels: int = 3, **changes) -> nn.Module:
    torch.manual_seed(0)
    return build_bert(BertConfig(**{**SHAPE, **changes}), head, 50, PAD, labels).eval()


def texts(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and segments of texts of these lengths, the second half of each in segment 1."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 50, (len(lengths), max(lengths)), generator=generator)
    positions = torch.arange(max(lengths))
    ends = torch.tensor(lengths).unsqueeze(1)
    return ids.masked_fill(positions >= ends, PAD), ((positions >= ends // 2) & (positions < ends)).long()


@pytest.mark.parametrize(
    ("size", "published", "paper"),
    [("tiny", 4_433_468, 0), ("base", 110_106_428, 110_000_000), ("large", 336_226_108, 340_000_000)],
)
def test_named_sizes_have_the_published_models_parameters(size: str, published: int, paper: int) -> None:
    """Counts all parts of the published checkpoints: tables, blocks, pooler, both pre-training heads.

    The paper rounds to tens of millions. Key biases are left out: the softmax cancels them.
    """
    config = BertConfig(size=size)
    with torch.device("meta"):
        model = build_bert(config, "pretraining", 30522, PAD)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == published - config.layers * config.d_model
    assert round(count, -7) == paper


def reference(bert: Bert, ids: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
    """The same model built from PyTorch's layers."""
    x = bert.token_embedding.weight[ids] + bert.segment_embedding.weight[segments]
    x = bert.norm(x + bert.position_embedding.table[: ids.size(1)])
    for block in bert.blocks:
        layer = pytorch_encoder_layer(block, 1e-12)
        x = layer.to(x.dtype)(x, src_key_padding_mask=ids == PAD)
    return x


@pytest.mark.parametrize("native", [True, False])
def test_it_equals_pytorchs_post_norm_encoder(native: bool) -> None:
    model = small().bert
    for parameter in model.parameters():  # so that a missing weight is noticed
        nn.init.normal_(parameter, std=0.3)
    ids, segments = texts(9, 4, 1)
    with torch.no_grad():
        actual = hidden_of_bert(model, ids, segments) if native else model(ids, segments)
        expected = reference(model, ids, segments)
    assert torch.allclose(actual[ids != PAD], expected[ids != PAD], atol=1e-5)


@pytest.mark.parametrize("head", ["none", "classes", "tags", "span"])
def test_padding_changes_nothing(head: str) -> None:
    model = small(head).double()
    ids, segments = texts(7, 5)
    wide_ids, wide_segments = (functional.pad(tensor, (0, 4)) for tensor in (ids, segments))
    with torch.no_grad():
        narrow, wide = model(ids, segments), model(wide_ids, wide_segments)
        alone = model(ids[1:, :5], segments[1:, :5])
    if head == "tags":
        narrow, wide, alone = narrow[1, :5], wide[1, :5], alone[0]
    elif head == "span":
        narrow, wide, alone = narrow[1, :, :5], wide[1, :, :5], alone[0]
    else:
        narrow, wide, alone = narrow[1], wide[1], alone[0]
    assert torch.allclose(narrow, wide, atol=1e-10)
    assert torch.allclose(narrow, alone, atol=1e-10)


@pytest.mark.parametrize("native", [True, False])
def test_hidden_states_at_selected_positions_equal_those_of_the_whole_batch(native: bool) -> None:
    """Values and gradients; positions come in any order, and a text may have none of them."""
    model = small().bert
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    ids, segments = texts(9, 4, 1, 7)
    positions, results = torch.tensor([10, 0, 8, 3, 27, 9]), []
    weights = torch.randn(len(positions), 32, generator=torch.Generator().manual_seed(2))

    def hidden(positions: torch.Tensor | None = None) -> torch.Tensor:
        if native:
            return hidden_of_bert(model, ids, segments, positions)
        return model(ids, segments, positions=positions)

    for output in (hidden(positions), hidden().flatten(0, 1)[positions]):
        model.zero_grad()
        (output * weights).sum().backward()
        results.append(
            [output, *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]
        )
    for selected, whole in zip(*results, strict=True):
        assert torch.allclose(selected, whole, atol=2e-5, rtol=1e-4)


def test_an_answer_never_begins_or_ends_in_padding() -> None:
    ids, segments = texts(6, 3)
    with torch.no_grad():
        shares = small("span")(ids, segments).softmax(-1)
    assert shares[1, :, 3:].eq(0).all()
    assert torch.allclose(shares.sum(-1), torch.ones(2, 2))


def test_segments_and_order_matter() -> None:
    model = small()
    ids, segments = texts(6)
    with torch.no_grad():
        expected = model(ids, segments)
        assert not torch.allclose(expected, model(ids, 1 - segments), atol=1e-4)
        assert not torch.allclose(expected, model(ids.flip(1), segments), atol=1e-4)


def test_the_output_projection_is_the_token_embedding() -> None:
    model = small("pretraining")
    ids, segments = texts(6, 4)
    rows, following = model(ids, segments, torch.tensor([1, 7, 8]))
    assert rows.shape == (3, 32)
    assert following.shape == (2, 2)
    assert model.output[0] is model.bert.token_embedding.weight


@pytest.mark.parametrize(("head", "unused"), [("classes", ()), ("pretraining", ()), ("tags", ("bert.pooler",)), ("span", ("bert.pooler",))])  # fmt: skip
def test_every_parameter_gets_a_gradient(head: str, unused: tuple[str, ...]) -> None:
    model = small(head).train()
    ids, segments = texts(20, 20)
    if head == "pretraining":
        rows, following = model(ids, segments, torch.arange(6))
        scores = functional.linear(rows, *model.output)
        loss = scores.square().sum() + following.square().sum()
    else:
        loss = model(ids, segments).square().sum()
    loss.backward()
    still = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.any()
    ]
    assert [name for name in still if not name.startswith(unused or ("none",))] == []


def test_recording_names_every_layer_and_leaves_the_result() -> None:
    model = small().bert
    ids, segments = texts(6, 6)
    record = Recorder()
    with torch.no_grad():
        assert torch.allclose(model(ids, segments, record), model(ids, segments), atol=1e-5)
    assert record.names == ["encoder.0.self", "encoder.1.self"]
    assert record["encoder.1.self"].shape == (2, 4, 6, 6)


def test_a_text_longer_than_the_positions_is_refused() -> None:
    ids, segments = texts(21)
    with pytest.raises(ValueError, match="length 21 is longer than the 20 learned positions"):
        small()(ids, segments)
