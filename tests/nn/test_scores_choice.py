"""Every score in every Transformer: it trains, decodes step by step, is recorded, and is never ignored by the engine."""

from typing import Any, get_args

import pytest
import torch
from torch.nn import functional

from regard.config.models import BertConfig, GptConfig, RnnConfig, ScoreName, TransformerConfig, VitConfig
from regard.config.schema import parse_assignments
from regard.engine import Plan, Unsupported, plan
from regard.errors import RecipeError
from regard.nn import MultiHead, Recorder, Relative, make_score, scores
from regard.nn.build import build, build_bert, build_gpt, build_vit
from regard.nn.scores import SCORES
from regard.tasks.registry import load_recipe

NAMES = get_args(ScoreName)
SIZES: dict[str, Any] = {"d_model": 16, "heads": 2, "d_ff": 32}


def transformer(score: str, position: str = "sinusoidal") -> Any:
    torch.manual_seed(0)
    config = TransformerConfig(encoder_layers=1, decoder_layers=2, score=score, position=position, **SIZES)  # type: ignore[arg-type]
    return build(config, 30, 30, 0)


def gpt(score: str) -> Any:
    torch.manual_seed(0)
    return build_gpt(GptConfig(layers=2, max_length=16, score=score, **SIZES), "language", 30)  # type: ignore[arg-type]


def test_the_table_names_every_score() -> None:
    assert set(SCORES) == set(NAMES)
    kinds = {type(make_score(name, 8)) for name in NAMES}
    every = {
        item for item in vars(scores).values() if isinstance(item, type) and issubclass(item, scores.Score)
    }
    assert kinds == every - {scores.Score}


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary", "alibi", "none"])
@pytest.mark.parametrize("score", NAMES)
def test_a_cached_step_equals_the_full_pass(score: str, position: str) -> None:
    model = transformer(score, position).eval()
    source, target = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]]), torch.randint(4, 30, (2, 6))
    with torch.no_grad():
        full, state = model(source, target), model.start(source)
        for index in range(6):
            step, state = model.step(target[:, index], state)
            assert torch.allclose(step, full[:, index], atol=1e-5)


@pytest.mark.parametrize("score", NAMES)
def test_every_parameter_of_every_score_is_trained(score: str) -> None:
    source, target = torch.randint(4, 30, (3, 5)), torch.randint(4, 30, (3, 6))
    bert = build_bert(BertConfig(layers=1, max_length=8, score=score, **SIZES), "classes", 30, 0, 3)  # type: ignore[arg-type]
    vit = build_vit(VitConfig(layers=1, height=8, width=8, channels=1, patch=4, score=score, **SIZES), 3)  # type: ignore[arg-type]
    for model, inputs in (
        (transformer(score), (source, target)),
        (gpt(score), (source,)),
        (bert, (source, source * 0)),
        (vit, (torch.rand(2, 1, 8, 8),)),
    ):
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        losses = []
        for _ in range(5):
            out = model.train()(*inputs).flatten(0, -2)
            loss = functional.cross_entropy(out, torch.arange(len(out)) % 3)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        assert losses[-1] < losses[0]
        learned = {
            name
            for name, parameter in model.named_parameters()
            if parameter.grad is not None and parameter.grad.any()
        }
        assert {name for name, _ in model.named_parameters() if ".score." in name} <= learned


@pytest.mark.parametrize("score", NAMES)
def test_it_is_recorded_and_recording_changes_nothing(score: str) -> None:
    model, record = transformer(score).eval(), Recorder()
    source, target = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]]), torch.randint(4, 30, (2, 6))
    with torch.no_grad():
        plain, recorded = model(source, target), model(source, target, record)
    assert torch.allclose(plain, recorded, atol=1e-5)
    assert {"encoder.0.self", "decoder.1.self", "decoder.1.cross"} <= set(record.names)
    weights = record["decoder.1.cross"]
    assert torch.allclose(weights.sum(-1), torch.ones(2, 2, 6), atol=1e-5)
    assert not weights[1, ..., 2:].any()  # padding


@pytest.mark.parametrize("score", NAMES)
def test_the_engine_runs_scaled_dot_products_only(score: str) -> None:
    planned = plan(transformer(score).eval()), plan(gpt(score).eval())
    assert all(isinstance(result, Plan if score == "scaled-dot" else Unsupported) for result in planned)


@pytest.mark.parametrize("score", [name for name in NAMES if name != "scaled-dot"])
def test_relative_positions_are_refused_with_another_score(score: str) -> None:
    message = 'relative positions are defined for the "scaled-dot" score'
    with pytest.raises(RecipeError, match=message):
        load_recipe(
            "translation",
            parse_assignments(["data.source=x", f"model.score={score}", "model.position=relative"]),
        )
    with pytest.raises(ValueError, match="Relative positions are defined for the scaled dot score"):
        MultiHead(16, 2, score=make_score(score, 8), position=Relative(8))  # type: ignore[arg-type]


@pytest.mark.parametrize("score", ["scaled-dot", "gaussian"])
def test_an_rnn_refuses_scores_that_its_papers_do_not_define(score: str) -> None:
    with pytest.raises(
        ValueError, match=f"luong attention has no {score} score; allowed: general, dot, concat"
    ):
        RnnConfig("rnn", attention="luong", score=score)  # type: ignore[arg-type]
