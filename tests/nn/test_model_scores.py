"""Every score in every model: a training step, cached decoding, recorded weights, recipes, and what is refused."""

from typing import Any, get_args

import pytest
import torch
from support.padded_calls import run_padded
from torch import Tensor, nn

from regard.config.models import BertConfig, GptConfig, ScoreName, TransformerConfig, VitConfig
from regard.config.schema import parse_assignments
from regard.data.batches import Batch
from regard.engine import Unsupported, plan
from regard.engine.library import kernels
from regard.errors import RecipeError
from regard.nn import MultiHead, Packed, Recorder, Relative, make_score
from regard.nn.build import build, build_bert, build_gpt, build_vit
from regard.nn.gpt import GptLanguageModel
from regard.nn.scores import SCORES
from regard.nn.transformer import Transformer
from regard.tasks.registry import load_recipe
from regard.training.objectives import Seq2SeqObjective

NAMES = list(get_args(ScoreName))
OTHERS = [name for name in NAMES if name != "scaled-dot"]
POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "none"]
PAD, VOCABULARY = 2, 40
SIZES = {"d_model": 16, "heads": 2, "d_ff": 24}


def shaken(model: nn.Module) -> nn.Module:
    """Sharpness apart, no weight is what it was at first, so that none is missing unseen."""
    for name, each in model.named_parameters():
        if "sharpness" not in name:
            nn.init.normal_(each, std=0.3)
    return model.eval()


def transformer(score: str, **changes: Any) -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(**{**SIZES, "encoder_layers": 2, "decoder_layers": 2, "score": score, **changes})
    model = shaken(build(config, VOCABULARY, VOCABULARY, PAD))
    assert isinstance(model, Transformer)
    return model


def ids(*shape: int, seed: int = 1) -> Tensor:
    return torch.randint(4, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def test_every_name_has_a_score() -> None:
    assert set(SCORES) == set(NAMES)
    for name in NAMES:
        assert type(make_score(name, 4)) is type(make_score(name, 6, 4, 3))
        if name in ("general", "additive", "concat"):
            assert make_score(name, 6, 4, 3)(torch.randn(2, 6), torch.randn(5, 4)).shape == (2, 5)


@pytest.mark.parametrize(("score", "growth"), [("dot", 4), ("scaled-dot", 1), ("gaussian", 1), ("cosine", 1)])
@torch.no_grad()
def test_scores_of_larger_heads_do_not_grow_unless_unscaled(score: ScoreName, growth: float) -> None:
    torch.manual_seed(0)
    small, large = (
        float(make_score(score, size)(torch.randn(200, size), torch.randn(200, size)).std())
        for size in (8, 128)
    )
    assert large / small == pytest.approx(growth, rel=0.15)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("score", NAMES)
@torch.no_grad()
def test_cached_decoding_equals_the_full_forward(score: str, position: str) -> None:
    model = transformer(score, position=position).double()
    source, target = ids(3, 6), ids(3, 7, seed=2)
    source[1, 4:] = PAD
    full = model(source, target)
    state = model.start(source)
    for number in range(7):
        scores, state = model.step(target[:, number], state)
        assert torch.allclose(scores, full[:, number], atol=1e-10)
    changed = target.clone()
    changed[:, 4:] = (changed[:, 4:] + 5) % VOCABULARY
    assert torch.equal(model(source, changed)[:, :4], full[:, :4])  # causal


@pytest.mark.parametrize("position", ["sinusoidal", "rotary"])
@pytest.mark.parametrize("score", NAMES)
def test_a_training_step_reaches_every_parameter_and_lowers_the_loss(score: str, position: str) -> None:
    model = transformer(score, position=position, dropout=0.0, tie_embeddings="none").train()
    source, gold = ids(4, 6), ids(4, 5, seed=2)
    source[1, 3:] = gold[2, 2:] = PAD
    target = torch.cat([torch.zeros(4, 1, dtype=torch.long), gold[:, :-1]], 1).masked_fill(gold == PAD, PAD)
    packed = Packed.from_padded(source, source != PAD)
    shifted, labels = (Packed.from_padded(each, gold != PAD) for each in (target, gold))
    batch = Batch(packed, shifted, labels, len(labels.values), ())
    objective = Seq2SeqObjective(model, PAD, smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = objective(batch)
        loss.backward()
        still = [name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()]
        assert still == []
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("score", NAMES)
@torch.no_grad()
def test_the_recorder_gets_the_weights_of_the_score(score: str) -> None:
    model, record = transformer(score), Recorder()
    source, target = ids(2, 6), ids(2, 5, seed=2)
    assert torch.allclose(model(source, target, record), model(source, target), atol=1e-4)
    assert record.names == [
        "encoder.0.self", "encoder.1.self",
        "decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross",
    ]  # fmt: skip
    for name in record.names:
        weights = record[name]
        assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5)
    assert record["decoder.1.self"].triu(1).abs().max() == 0
    attention = model.encoder.blocks[0].self_attention.attention  # from its formula, with the score alone
    x = model.encoder.position.embed(model.source_embedding(source))
    x = model.encoder.blocks[0].self_attention.norm(x)
    heads = [each.unflatten(-1, (2, 8)).transpose(1, 2) for each in (attention.query(x), attention.key(x))]
    assert torch.allclose(record["encoder.0.self"], attention.score(*heads).softmax(-1), atol=1e-5)


def test_each_layer_has_a_score_of_its_own() -> None:
    model = transformer("additive")
    scores = [module.score for module in model.modules() if isinstance(module, MultiHead)]
    assert len(scores) == 6
    assert len({id(each.value.weight) for each in scores}) == 6


@pytest.mark.parametrize("score", NAMES)
@torch.no_grad()
def test_gpt_bert_and_vit_take_every_score(score: str) -> None:
    torch.manual_seed(0)
    small = {**SIZES, "layers": 2, "score": score}
    gpt = shaken(build_gpt(GptConfig(**small, max_length=16), "language", VOCABULARY))
    assert isinstance(gpt, GptLanguageModel)
    text = ids(2, 9)
    state = gpt.start(text[:, :4])
    for number in range(4, 9):
        scores, state = gpt.step(text[:, number], state)
        assert torch.allclose(scores, gpt(text)[:, number], atol=1e-4)
    bert = shaken(build_bert(BertConfig(**small, max_length=16), "classes", VOCABULARY, 0, 3))
    texts = ids(2, 9)
    texts[1, 5:] = 0
    segments = torch.zeros_like(texts)
    assert torch.allclose(bert(texts, segments)[1:], bert(texts[1:, :5], segments[1:, :5]), atol=1e-5)
    assert torch.allclose(run_padded(bert, texts, segments), bert(texts, segments), atol=1e-5)
    vit = shaken(build_vit(VitConfig(**small, patch=2, height=4, width=4, channels=1), 3))
    pixels = torch.rand(2, 1, 4, 4)
    assert torch.allclose(run_padded(vit, pixels), vit(pixels), atol=1e-5)


# Refusals


@pytest.mark.parametrize("score", OTHERS)
def test_relative_positions_with_another_score_are_refused(score: str) -> None:
    sentence = f'relative positions are defined for the "scaled-dot" score, not for "{score}"'
    with pytest.raises(ValueError, match=sentence):
        TransformerConfig(**SIZES, encoder_layers=1, decoder_layers=1, position="relative", score=score)  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match=r"model\.score: relative positions"):
        load_recipe("picturebook", parse_assignments(["model.position=relative", f"model.score={score}"]))
    with pytest.raises(ValueError, match=r"Relative positions are defined for the scaled dot score, not for"):
        MultiHead(8, 2, score=make_score(score, 4), position=Relative(4))  # type: ignore[arg-type]


@pytest.mark.parametrize("recipe", ["picturebook", "gpt", "pretraining", "sentiment", "vit"])
def test_recipes_take_a_score_by_its_name(recipe: str) -> None:
    for score in NAMES:
        assert load_recipe(recipe, parse_assignments([f"model.score={score}"])).model.score == score  # type: ignore[union-attr]
    assert load_recipe(recipe).model.score == "scaled-dot"  # type: ignore[union-attr]
    with pytest.raises(RecipeError) as refused:
        load_recipe(recipe, {"model.score": "euclidean"})
    assert str(refused.value).startswith('model.score: "euclidean" is not a choice')
    assert f"allowed: {', '.join(NAMES)}" in str(refused.value)


@pytest.mark.skipif(kernels() is None, reason="there is no compiled library")
@pytest.mark.parametrize("score", NAMES)
def test_the_native_engine_refuses_other_scores_by_name(score: str) -> None:
    sizes: dict[str, Any] = {**SIZES, "layers": 1, "score": score}
    models = [
        transformer(score),
        build_gpt(GptConfig(**sizes), "language", VOCABULARY),
        build_bert(BertConfig(**sizes), "none", VOCABULARY, 0).bert,
        build_vit(VitConfig(**sizes, patch=2, height=4, width=4, channels=1), 3).vit,
    ]
    for model in models:
        found = plan(model)  # type: ignore[arg-type]
        if score == "scaled-dot":
            assert not isinstance(found, Unsupported), found
        else:
            assert isinstance(found, Unsupported)
            assert type(make_score(score, 4)).__name__ in found.reason  # type: ignore[arg-type]
            assert "score" in found.reason
