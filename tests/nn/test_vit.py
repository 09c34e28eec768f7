"""The Vision Transformer: the paper's size, PyTorch's own encoder as reference, both layouts equal, gradients for every parameter."""

import pytest
import torch
from support.pytorch_encoder import pytorch_encoder_layer
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
    for parameter in model.parameters():  # no weight may be missing unseen
        nn.init.normal_(parameter, std=0.3)
    return model


def images(count: int = 3) -> torch.Tensor:
    return torch.rand(count, 3, 8, 12, generator=torch.Generator().manual_seed(1))


def test_base_has_the_papers_size() -> None:
    """86 million (Dosovitskiy et al. 2021, table 1); key biases are left out: the softmax cancels them."""
    config = VitConfig(size="base", height=224, width=224, channels=3)
    with torch.device("meta"):
        model = build_vit(config, 1000)
    assert sum(parameter.numel() for parameter in model.parameters()) == 86_567_656 - 12 * 768
    assert config.tokens == 197


def reference(model: nn.Module, pixels: torch.Tensor) -> torch.Tensor:
    """The same model built from PyTorch's convolution and layers."""
    vit: Vit = model.vit
    kernel = vit.patch_embedding.weight.view(32, 3, 4, 4)
    x = functional.conv2d((pixels - 0.5) / 0.5, kernel, vit.patch_embedding.bias, stride=4)
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([vit.class_embedding.expand(len(x), 1, -1), x], 1) + vit.position_embedding.table
    for block in vit.blocks:
        layer = pytorch_encoder_layer(block, 1e-6, norm_first=True)
        x = layer(x)
    return model.labels(vit.norm(x[:, 0]))


@pytest.mark.parametrize("native", [True, False])
def test_it_equals_pytorchs_pre_norm_encoder(native: bool) -> None:
    model = small()
    with torch.no_grad():
        actual = run(model, images()) if native else model(images())
        assert torch.allclose(actual, reference(model, images()), atol=2e-5)


@pytest.mark.parametrize("changes", [{}, {"pooling": "mean"}, {"position": "sinusoidal"}])
def test_packed_and_padded_inputs_agree(changes: dict[str, str]) -> None:
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


def test_patches_are_ordered_row_by_row() -> None:
    pixels = torch.arange(2 * 8 * 12.0).view(1, 2, 8, 12)
    tokens = patches(pixels, 4)
    assert tokens.shape == (1, 6, 32)
    assert torch.equal(tokens[0, 4], pixels[0, :, 4:8, 4:8].flatten())  # second row, second column


def test_sinusoidal_positions_encode_row_and_column() -> None:
    table = small(position="sinusoidal").vit.position_embedding.table
    assert table.shape == (7, 32)
    assert not table[0].any()  # the class token
    grid = table[1:].view(2, 3, 32)
    assert torch.equal(grid[0, :, :16], grid[0, :1, :16].expand(3, -1))  # one row, one first half
    assert torch.equal(grid[:, 1, 16:], grid[:1, 1, 16:].expand(2, -1))  # one column, one second half
    assert len({tuple(row.tolist()) for row in table[1:]}) == 6


@pytest.mark.parametrize("changes", [{}, {"pooling": "mean", "position": "sinusoidal"}])
def test_every_parameter_gets_a_gradient(changes: dict[str, str]) -> None:
    model = small(**changes).train()
    model(images()).square().sum().backward()
    assert [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.any()
    ] == []


def test_images_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="images of this model are 3 x 8 x 12, not 3 x 8 x 8"):
        small()(torch.rand(1, 3, 8, 8))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patch": 5}, "patches of 5 do not divide the height of 8"),
        ({"channels": 2}, "grey"),
        ({"d_model": 30, "heads": 3, "position": "sinusoidal"}, "multiple of 4"),
        ({"mean": (0.1, 0.2)}, "one number"),
    ],
)
def test_impossible_sizes_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VitConfig(**{**SHAPE, **changes})
