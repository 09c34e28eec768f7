"""Wrong keys: the right one is named where other toolkits call it otherwise, or where it is in another section."""

import pytest

from regard.config.schema import SYNONYMS, key_paths, named_keys, near_keys, parse_assignments
from regard.errors import RecipeError
from regard.tasks.registry import SPECS, load_recipe
from regard.tasks.translation.config import TranslationRecipe

PATHS = {path for spec in SPECS for path in key_paths(spec.recipe)}
KEYS = {path.rpartition(".")[2] for path in PATHS}


def test_every_synonym_leads_to_a_key_and_is_none_itself() -> None:
    assert {name for names in SYNONYMS.values() for name in names} <= KEYS
    assert list(SYNONYMS) == sorted(SYNONYMS)
    overlaps = {name for name in SYNONYMS if name in KEYS}
    assert overlaps <= {"layers", "rate", "batch_size", "keep"}  # keys of other sections or tasks


def test_paths_of_keys() -> None:
    paths = list(key_paths(TranslationRecipe))
    assert {"task", "data.source", "train.lr", "model.attention", "model.kernel", "decode.beam"} <= set(paths)
    assert len(paths) == len(set(paths))
    assert not any("SIZES" in path for path in paths)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("steps", ["train.steps"]),
        ("learning_rate", ["train.lr"]),
        ("Learning-Rate", ["train.lr"]),
        ("max_epochs", ["train.epochs"]),
        ("num_beams", ["decode.beam"]),
        ("task", []),
        ("wombat", []),
    ],
)
def test_keys_by_name(wrong: str, meant: list[str]) -> None:
    assert named_keys(wrong, TranslationRecipe) == meant


def test_keys_by_spelling() -> None:
    assert near_keys("minuts", TranslationRecipe) == ["train.minutes"]
    assert near_keys("lerning_rate", TranslationRecipe) == ["train.lr"]
    assert near_keys("wombat", TranslationRecipe) == []


@pytest.mark.parametrize(
    ("recipe", "assignment", "message"),
    [
        ("picturebook", "train.warmup_steps=5", "train.warmup_steps: there is no such key; did you mean 'warmup'? allowed: warmup, "),
        ("picturebook", "model.hidden_size=5", "model.hidden_size: there is no such key; did you mean 'd_model'?"),
        ("rnn", "model.hidden_size=5", "model.hidden_size: there is no such key; did you mean 'hidden'?"),
        ("kernel", "steps=5", "steps: there is no such key; did you mean 'train.steps'? allowed: task, data, model, train"),
        ("kernel", "learning_rate=5", "learning_rate: there is no such key; did you mean 'train.lr'?"),
        ("kernel", "train.rate=5", "train.rate: there is no such key; did you mean 'lr'? allowed: steps, lr, seed, device"),
    ],
)  # fmt: skip
def test_the_message_names_the_right_key(recipe: str, assignment: str, message: str) -> None:
    with pytest.raises(RecipeError) as refused:
        load_recipe(recipe, parse_assignments([assignment]))
    assert str(refused.value).startswith(message)


def test_a_long_list_is_cut() -> None:
    with pytest.raises(RecipeError) as refused:
        load_recipe("picturebook", {"train.wombat": 1})
    listed = str(refused.value).partition("allowed: ")[2]
    assert listed.endswith(", ... (all: regard recipes NAME)")
    assert len(listed.split(", ")) == 6
