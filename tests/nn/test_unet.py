"""The U-Net: shapes, what padding and merging may not change, and that everything in it learns."""

import pytest
import torch
from support.small_diffusion import END, PADDING, SIDE, small_unet

from regard.config.models import UnetConfig
from regard.nn import MultiHead, Recorder
from regard.nn.unet import MergedAttention, Unet

PROMPTS = torch.tensor([[4, 5, END], [6, END, PADDING]])


def told(model, prompts=PROMPTS, **options):
    torch.manual_seed(1)
    pictures = torch.randn(len(prompts), 1, model.side, model.side)
    with torch.no_grad():
        return model(pictures, torch.tensor([3, 17])[: len(prompts)], model.encode_prompt(prompts), **options)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"attend_at": ()},
        {"attend_at": (8,), "blocks": 2},
        {"widths": (1, 3, 2), "attend_at": (4, 2)},
        {"widths": (2,), "attend_at": (8,)},
        {"side": 7, "widths": (1,), "attend_at": (7,)},
    ],
)
def test_noise_has_the_shape_of_the_picture(changed) -> None:
    model = small_unet(**changed)
    found = told(model)
    assert found.shape == (2, 1, model.side, model.side)
    assert torch.isfinite(found).all()


def test_a_fresh_model_predicts_zeros() -> None:
    model = Unet(UnetConfig(), 10, PADDING)
    assert float(told(model).abs().max()) == 0


def test_prompt_and_time_count_and_padding_does_not() -> None:
    model = small_unet()
    found = told(model)
    wider = torch.nn.functional.pad(PROMPTS, (0, 3), value=PADDING)
    assert torch.allclose(told(model, wider), found, atol=1e-5)
    assert not torch.allclose(told(model, PROMPTS.flip(0)), found, atol=1e-3)
    pictures = torch.randn(1, 1, SIDE, SIDE)
    read = model.encode_prompt(PROMPTS[:1])
    early, late = (model(pictures, torch.tensor([time]), read) for time in (0, 19))
    assert not torch.allclose(early, late, atol=1e-3)


def test_prompts_are_encoded_once_and_selected_by_row() -> None:
    model = small_unet()
    pictures, times = torch.randn(2, 1, SIDE, SIDE), torch.tensor([3, 17])
    turned = model.encode_prompt(PROMPTS).select(torch.tensor([1, 0]))
    assert torch.allclose(
        model(pictures, times, turned), model(pictures, times, model.encode_prompt(PROMPTS.flip(0))), atol=1e-5
    )


def test_everything_learns() -> None:
    model = small_unet().train()
    read = model.encode_prompt(PROMPTS)
    model(torch.randn(2, 1, SIDE, SIDE), torch.tensor([3, 17]), read).square().sum().backward()
    still = [
        name for name, each in model.named_parameters() if each.grad is None or not each.grad.abs().max() > 0
    ]
    assert still == []


def test_attention_is_recorded_by_resolution() -> None:
    model, record = small_unet(), Recorder()
    plain = told(model)
    assert torch.allclose(told(model, record=record), plain, atol=1e-5)
    ways = [
        f"{way}.{side}.0.{kind}"
        for way, sides in (("down", (8, 4)), ("up", (4, 8)))
        for side in sides
        for kind in ("self", "cross")
    ]
    assert record.names == ways
    assert record["down.8.0.self"].shape == (2, 2, 64, 64)
    assert record["up.4.0.cross"].shape == (2, 2, 16, 3)
    assert torch.allclose(record["up.4.0.cross"].sum(-1), torch.ones(()), atol=1e-5)
    assert float(record["up.4.0.cross"][1, :, :, 2].max()) == 0  # nobody looks at padding


def test_merging_no_tokens_is_bit_identical() -> None:
    model = small_unet()
    assert torch.equal(told(model, merge=0.0), told(model))


def test_merging_happens_at_the_largest_resolution_only() -> None:
    model, record = small_unet(), Recorder()
    found = told(model, merge=0.5, record=record)
    assert record["down.8.0.self"].shape == (2, 2, 32, 32)
    assert record["down.4.0.self"].shape == (2, 2, 16, 16)
    assert found.shape == (2, 1, SIDE, SIDE)
    assert not torch.equal(found, told(model))


def test_merging_duplicates_changes_nothing() -> None:
    """Whoever stands for several counts as so many."""
    torch.manual_seed(0)
    attention = MergedAttention(MultiHead(16, 2))
    some = torch.randn(2, 12, 16)
    others = torch.randint(0, 12, (2, 12, 1)).expand(-1, -1, 16)
    tokens = torch.stack([some.gather(1, others), some], 2).flatten(1, 2)  # every other is one of the rest
    assert torch.allclose(attention(tokens), attention(tokens, merge=0.5), atol=1e-6)
    different = torch.randn(2, 24, 16)
    assert not torch.allclose(attention(different), attention(different, merge=0.5), atol=1e-3)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"attend_at": (9,)}, "attend_at: there is no resolution of side 9; allowed: 28, 14, 7"),
        ({"widths": (1, 2, 3, 4)}, "widths: a side of 28 pixels cannot be halved 3 times"),
        ({"widths": ()}, "widths: there is no resolution; name one width at least"),
        ({"heads": 5}, "heads: 5 heads do not divide 16 channels evenly"),
    ],
)
def test_impossible_shapes_are_refused(wrong, told) -> None:
    with pytest.raises(ValueError, match=told.split(";")[0]):
        UnetConfig(**wrong)
