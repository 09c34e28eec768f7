"""The RNN recipes from file to run folder and back, with the same features as the Transformer."""

from pathlib import Path

import numpy as np
import pytest

import regard
from regard.config.recipes import shipped_recipes
from regard.config.schema import parse_assignments
from regard.tasks.metrics_log import NullListener
from regard.tasks.registry import load_recipe
from regard.tasks.translation.model import Translator
from regard.viz.attention_maps import AttentionMaps
from regard.viz.html_page import attention_page

RECIPES = ["rnn", "rnn-reversed", "bahdanau", "luong-dot", "luong-general", "luong-concat"]
SMALL = [
    "data.corpus=files", "data.source=n.de", "data.target=n.en", "tokenizer.kind=words", "model.embedding=32",
    "model.hidden=32", "model.dropout=0", "train.lr=0.01", "train.warmup=50", "train.batch_tokens=512",
    "train.validate_every=200", "train.smoothing=0",
]  # fmt: skip


def train(corpus: Path, out: Path, recipe: str, *more: str, **options):
    return regard.train(
        recipe, out, overrides=parse_assignments([f"data.path={corpus}", *SMALL, *more]), **options
    )


@pytest.fixture(scope="module")
def with_attention(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Translator:
    made = train(corpus, tmp_path_factory.mktemp("runs") / "bahdanau", "bahdanau", "train.steps=400")
    assert made.quality.bleu > 90
    return regard.load(made.folder)


def test_a_model_with_attention_translates_and_has_attention_maps(with_attention: Translator) -> None:
    assert with_attention.translate(["drei vier eins.", "acht."]) == ["three four one.", "eight."]
    maps = with_attention.attention("drei vier eins.")
    assert maps.target == ["three", "four", "one", ".", "</s>"]
    alignment = maps.alignment()
    assert alignment.shape == (5, 5)
    np.testing.assert_allclose(alignment.sum(1), 1.0, atol=1e-5)


def test_the_card_describes_the_model(with_attention: Translator) -> None:
    card = (with_attention.folder.path / "README.md").read_text("utf-8")
    assert "bidirectional GRU, 1 + 1 layers, 32 / 32, bahdanau attention (additive)" in card


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_trains_and_opens(corpus: Path, tmp_path: Path, recipe: str) -> None:
    made = train(corpus, tmp_path / recipe, recipe, "train.steps=3", "train.validate_every=3")
    model = regard.load(made.folder)
    assert len(model.translate(["drei vier.", ""])) == 2
    maps = model.attention("drei vier.")
    if recipe.startswith("rnn"):
        for see in (AttentionMaps.alignment, attention_page):
            with pytest.raises(regard.RegardError, match="this model has no attention weights to show"):
                see(maps)
    else:
        assert maps.alignment().shape == maps.layers["decoder.cross"].shape[1:]
        assert maps.alignment().shape[1] == 4
        assert '"name":"decoder.cross"' in attention_page(maps)


def test_the_recipes_differ_in_the_model_alone() -> None:
    assert set(RECIPES) <= set(shipped_recipes())
    recipes = [load_recipe(name) for name in RECIPES]
    assert len({(recipe.data, recipe.tokenizer, recipe.train, recipe.decode) for recipe in recipes}) == 1
    assert len({recipe.model for recipe in recipes}) == len(RECIPES)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_resumed_run_equals_an_uninterrupted_one(corpus: Path, tmp_path: Path, cell: str) -> None:
    more = [f"model.cell={cell}", "model.dropout=0.2", "model.layers=2", "train.checkpoint_every=5"]
    whole = train(corpus, tmp_path / "whole", "luong-general", *more, "train.steps=10")
    with pytest.raises(Stop):
        train(
            corpus,
            tmp_path / "interrupted",
            "luong-general",
            *more,
            "train.steps=10",
            "train.log_every=7",
            listener=StoppingListener(),
        )
    interrupted = train(corpus, tmp_path / "interrupted", "luong-general", *more, "train.steps=10", resume=True)
    expected, resumed = (run.folder / "model.safetensors" for run in (whole, interrupted))
    assert expected.read_bytes() == resumed.read_bytes()


class Stop(Exception):
    pass


class StoppingListener(NullListener):
    """A listener that stops the training run at the first report."""

    def progress(self, line: str, done: float) -> None:
        raise Stop


def test_the_coverage_penalty_needs_attention() -> None:
    with pytest.raises(regard.RegardError) as refused:
        load_recipe("rnn", {"decode.coverage": 0.2})
    assert 'decode.coverage: this needs attention weights, and model.attention is "none"' in str(refused.value)


def test_one_line_of_the_recipe_changes_the_model() -> None:
    recipe = load_recipe("rnn", {"model.attention": "luong"})
    assert recipe.model.score == "general"
    assert recipe.model.encoder_size == recipe.model.hidden
