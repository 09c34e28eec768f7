"""The Vision Transformer: the paper's size, PyTorch's own encoder as reference, both layouts equal, parts that learn."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from regard.config.models import VitConfig
from regard.engine import run
from regard.engine.plan import supports
from regard.nn import Recorder
from regard.nn.build import build_vit
from regard.nn.vit import Vit, patches

SHAPE = {
    "layers": 2,
    "d_model": 32,
    "heads": 4,
    "d_ff": 48,
    "patch": 4,
    "height": 8,
    "width": 12,
    "channels": 3,
}


def small(**changes) -> nn.Module:
    torch.manual_seed(0)
    model = build_vit(VitConfig(**{**SHAPE, **changes}), 5).eval()
    for each in model.parameters():  # no weight may be missing unseen
        nn.init.normal_(each, std=0.3)
    return model


def images(count: int = 3) -> torch.Tensor:
    return torch.rand(count, 3, 8, 12, generator=torch.Generator().manual_seed(1))


def test_base_has_the_papers_size() -> None:
    """86 million (Dosovitskiy et al. 2021, table 1); biases of keys are left out: a softmax does not see them."""
    config = VitConfig(size="base", height=224, width=224, channels=3)
    with torch.device("meta"):
        model = build_vit(config, 1000)
    assert sum(each.numel() for each in model.parameters()) == 86_567_656 - 12 * 768
    assert config.tokens == 197


def reference(model: nn.Module, pixels: torch.Tensor) -> torch.Tensor:
    """The same with PyTorch's convolution and layers."""
    vit: Vit = model.vit
    kernel = vit.patch_embedding.weight.view(32, 3, 4, 4)
    x = functional.conv2d((pixels - 0.5) / 0.5, kernel, vit.patch_embedding.bias, stride=4)
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([vit.class_embedding.expand(len(x), 1, -1), x], 1) + vit.position_embedding.table
    for block in vit.blocks:
        own, forward = block.self_attention.sublayer.attention, block.feed_forward.sublayer
        layer = nn.TransformerEncoderLayer(
            32, 4, 48, 0.0, functional.gelu, layer_norm_eps=1e-6, batch_first=True, norm_first=True
        ).eval()
        with torch.no_grad():
            layer.self_attn.in_proj_weight.copy_(
                torch.cat([own.query.weight, own.key.weight, own.value.weight])
            )
            layer.self_attn.in_proj_bias.copy_(torch.cat([own.query.bias, torch.zeros(32), own.value.bias]))
        pairs = [
            (layer.self_attn.out_proj, own.output), (layer.linear1, forward.fc1), (layer.linear2, forward.fc2),
            (layer.norm1, block.self_attention.norm), (layer.norm2, block.feed_forward.norm),
        ]  # fmt: skip
        for theirs, ours in pairs:
            theirs.load_state_dict(ours.state_dict())
        x = layer(x)
    return model.labels(vit.norm(x[:, 0]))


@pytest.mark.parametrize("native", [True, False])
def test_it_is_pytorchs_pre_norm_encoder(native: bool) -> None:
    model = small()
    with torch.no_grad():
        found = run(model, images()) if native else model(images())
        assert torch.allclose(found, reference(model, images()), atol=2e-5)


@pytest.mark.parametrize("changes", [{}, {"pooling": "mean"}, {"position": "sinusoidal"}])
def test_packed_is_padded(changes: dict[str, str]) -> None:
    model = small(**changes)
    with torch.no_grad():
        assert supports(model.vit, "hidden states")
        fast = run(model, images())
        record = Recorder()
        assert torch.allclose(model(images(), record), fast, atol=2e-5)
        assert torch.allclose(model(images()), fast, atol=2e-5)
    tokens = 6 + (changes.get("pooling") != "mean")
    assert record.names == ["encoder.0.self", "encoder.1.self"]
    assert record["encoder.1.self"].shape == (3, 4, tokens, tokens)


def test_patches_lie_row_by_row() -> None:
    pixels = torch.arange(2 * 8 * 12.0).view(1, 2, 8, 12)
    found = patches(pixels, 4)
    assert found.shape == (1, 6, 32)
    assert torch.equal(found[0, 4], pixels[0, :, 4:8, 4:8].flatten())  # second row, second column


def test_sinusoidal_positions_tell_rows_and_columns_apart() -> None:
    table = small(position="sinusoidal").vit.position_embedding.table
    assert table.shape == (7, 32)
    assert not table[0].any()  # the class token
    places = table[1:].view(2, 3, 32)
    assert torch.equal(places[0, :, :16], places[0, :1, :16].expand(3, -1))  # one row, one first half
    assert torch.equal(places[:, 1, 16:], places[:1, 1, 16:].expand(2, -1))  # one column, one second half
    assert len({tuple(each.tolist()) for each in table[1:]}) == 6


@pytest.mark.parametrize("changes", [{}, {"pooling": "mean", "position": "sinusoidal"}])
def test_every_parameter_learns(changes: dict[str, str]) -> None:
    model = small(**changes).train()
    model(images()).square().sum().backward()
    assert [name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()] == []


def test_images_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="images of this model are 3 x 8 x 12, not 3 x 8 x 8"):
        small()(torch.rand(1, 3, 8, 8))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"patch": 5}, "patches of 5 do not divide the height of 8"),
        ({"channels": 2}, "grey"),
        ({"d_model": 30, "heads": 3, "position": "sinusoidal"}, "multiple of 4"),
        ({"mean": (0.1, 0.2)}, "one number"),
    ],
)
def test_impossible_sizes_are_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        VitConfig(**{**SHAPE, **changes})
