"""Recipes: saved equals loaded, and errors name the key."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config.data import CurveDataConfig
from regard.config.models import KernelRegressionConfig
from regard.config.recipes import shipped_recipes
from regard.config.schema import Range, build, coerce, coerce_union, override, parse_assignments, parse_value
from regard.errors import RecipeError
from regard.tasks.kernel_regression.config import KernelRegressionRecipe, KernelTrainConfig
from regard.tasks.registry import load_recipe, read_recipe


def refused(name: str, *assignments: str) -> str:
    with pytest.raises(RecipeError) as caught:
        load_recipe(name, parse_assignments(assignments))
    return str(caught.value)


WRONG_ASSIGNMENTS = [
    (
        "train.step=5",
        "train.step: there is no such key; did you mean 'steps'? allowed: steps, lr, seed, device",
    ),
    ("trian.steps=5", "trian: there is no such key; did you mean 'train'? allowed: task, data, model, train"),
    ("colour=red", "colour: there is no such key; allowed: task, data, model, train"),
    ("train.steps=five", 'train.steps: "five" is not a whole number, at least 1'),
    ("train.steps=5.5", "train.steps: 5.5 is not a whole number, at least 1"),
    ("train.steps=true", "train.steps: true is not a whole number, at least 1"),
    ("train.steps=0", "train.steps: 0 is out of range; allowed is a whole number, at least 1"),
    ("train.steps=[1]", "train.steps: [1] is not a whole number, at least 1"),
    ("train.lr=-0.1", "train.lr: -0.1 is out of range; allowed is a number, above 0"),
    ("train.lr=fast", 'train.lr: "fast" is not a number, above 0'),
    ("train.lr=inf", "train.lr: inf is not a finite number"),
    ("train.lr=nan", "train.lr: nan is not a finite number"),
    ("train.seed=-1", "train.seed: -1 is out of range; allowed is a whole number, at least 0"),
    (
        "model.kernel=lerned",
        "model.kernel: \"lerned\" is not a choice; did you mean 'learned'? allowed: average, fixed, learned",
    ),
    ("model.kernel=5", 'model.kernel: "5" is not a choice; allowed: average, fixed, learned'),
    ("model=5", "model: 5 is not a table"),
    ("data.high=-1", "data.high: -1 is out of range; allowed is a number, above 0"),
    ("data.low=7", "data.high: 5 must be above low, which is 7"),
    ("data.samples=1", "data.samples: 1 is out of range; allowed is a whole number, at least 2"),
    (
        "task=difusion",
        "task: \"difusion\" is not a choice; did you mean 'diffusion'? allowed: kernel-regression, translation, masked-lm, classification, tagging, question-answering, encoder, language-modeling, image-classification, diffusion",
    ),
    ("train.steps", "'train.steps': settings are written KEY=VALUE, such as train.steps=500"),
    ("=5", "'=5': settings are written KEY=VALUE, such as train.steps=500"),
    ("train..steps=5", "'train..steps=5': settings are written KEY=VALUE, such as train.steps=500"),
    ("train.steps.more=5", "train.steps.more: train.steps is a value, not a table"),
]


@pytest.mark.parametrize(
    ("assignment", "sentence"), WRONG_ASSIGNMENTS, ids=[wrong for wrong, _ in WRONG_ASSIGNMENTS]
)
def test_a_wrong_assignment_is_refused_with_a_one_line_error(assignment: str, sentence: str) -> None:
    assert refused("kernel", assignment) == sentence


def test_contradictory_settings_are_refused() -> None:
    assert refused("kernel", "model.kernel=average", "model.sharpness=2").startswith(
        'model.sharpness: kernel = "average" weights all points equally'
    )


WRONG_FILES = [
    ("missing.toml", None, "cannot be read: No such file or directory"),
    ("folder.toml", "folder", "cannot be read: Is a directory"),
    ("latin.toml", b'task = "kern\xe9l"', "is not UTF-8 text: bad byte at offset 12"),
    ("broken.toml", b"task = ", "is not valid TOML: invalid value (at end of document)"),
    (
        "double.toml",
        b'task = "kernel-regression"\ntask = "kernel"',
        "is not valid TOML: cannot overwrite a value",
    ),
    (
        "wrong.toml",
        b'task = "kernel-regression"\n[train]\nsteps = "many"',
        'train.steps: "many" is not a whole number',
    ),
    ("flat.toml", b'task = "kernel-regression"\ntrain = 3', "train: 3 is not a table"),
]


@pytest.mark.parametrize(("name", "content", "sentence"), WRONG_FILES, ids=[name for name, *_ in WRONG_FILES])
def test_an_unreadable_file_is_refused_with_a_one_line_error(
    tmp_path: Path, name: str, content: bytes | str | None, sentence: str
) -> None:
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    assert sentence in refused(str(path))


def test_an_unknown_recipe_is_refused_with_the_shipped_ones() -> None:
    sentence = refused("kernle")
    assert sentence.startswith("there is no recipe 'kernle'; did you mean 'kernel'? allowed: ")
    assert sentence.endswith("or the path of a .toml file")


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_resolve_and_their_copy_reads_back_equal(name: str, tmp_path: Path) -> None:
    needed = ["data.source=a.de", "data.target=a.en"] if name == "translation" else []
    recipe = load_recipe(name, parse_assignments(needed))
    copy = tmp_path / "copy.toml"
    copy.write_text(recipe.to_toml(), "utf-8")
    assert load_recipe(str(copy)) == recipe


def test_assignments_reach_their_keys_and_a_bom_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b'\xef\xbb\xbftask = "kernel-regression"\n[train]\nsteps = 7\n')
    recipe = load_recipe(str(path), parse_assignments(["train.lr=1", "data.path=2016", 'model.kernel="fixed"']))
    assert recipe.train == KernelTrainConfig(steps=7, lr=1.0)
    assert recipe.data.path == "2016"  # a name that looks like a number stays a name
    assert recipe.model.kernel == "fixed"


def test_overrides_of_python_are_refused_like_those_of_a_file() -> None:
    overrides = {"train.steps": 7, "data.path": Path("points.csv"), "train.lr": 1}
    recipe = load_recipe("kernel", overrides)
    assert (recipe.train.steps, recipe.data.path, recipe.train.lr) == (7, "points.csv", 1.0)
    merged = load_recipe("vit", {"data.path": "x", "reduce.merge": (0.2, 0.1)})
    assert merged == load_recipe("vit", parse_assignments(["data.path=x", "reduce.merge=[0.2, 0.1]"]))
    for wrong, sentence in (
        ({"train.steps": "7"}, 'train.steps: "7" is not a whole number, at least'),
        ({"train.steps": True}, "train.steps: true is not a whole number"),
        ({"train.step": 7}, "train.step: there is no such key; did you mean 'steps'"),
        ({"data.path": 2016}, "data.path: 2016 is not a string"),
        ({"task.x": 1}, "task.x: task is a value, not a table"),
    ):
        with pytest.raises(RecipeError, match=sentence):
            load_recipe("kernel", wrong)


finite = st.floats(min_value=1e-6, max_value=1e6)


@given(
    path=st.none() | st.text(),
    samples=st.integers(2, 10**9),
    low=finite,
    sharpness=finite,
    seed=st.integers(0, 2**63),
)
def test_any_recipe_survives_toml(
    path: str | None, samples: int, low: float, sharpness: float, seed: int
) -> None:
    import tomllib

    recipe = KernelRegressionRecipe(
        data=CurveDataConfig(path=path, samples=samples, low=low, high=2 * low),
        model=KernelRegressionConfig(sharpness=sharpness),
        train=KernelTrainConfig(seed=seed),
    )
    try:
        table = tomllib.loads(recipe.to_toml())
    except UnicodeEncodeError:
        return
    assert read_recipe(table) == recipe


@dataclass(frozen=True)
class Circle:
    kind: Literal["circle"]
    radius: Annotated[float, Range(above=0, at_most=9)]


@dataclass(frozen=True)
class Square:
    kind: Literal["square"] = "square"
    side: int = 1


@dataclass(frozen=True)
class Drawing:
    shape: Circle | Square
    name: str
    sizes: tuple[Annotated[int, Range(at_least=0)], ...] = ()
    extra: Square = field(default_factory=Square)


def test_tables_are_selected_by_their_kind() -> None:
    drawn = build(Drawing, {"shape": {"kind": "circle", "radius": 2}, "name": "a", "sizes": [1, 2]})
    assert drawn == Drawing(Circle("circle", 2.0), "a", (1, 2))


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"name": "a"}, "shape: this key is missing; it is a table or a table"),
        ({"name": "a", "shape": {}}, "shape.kind: this key is missing; allowed: circle, square"),
        ({"name": "a", "shape": {"kind": "squre"}}, "shape.kind: \"squre\" is not a choice; did you mean 'square'? allowed: circle, square"),
        ({"name": "a", "shape": {"kind": "circle"}}, "shape.radius: this key is missing; it is a number, above 0 and at most 9"),
        ({"name": "a", "shape": {"kind": "circle", "radius": 10}}, "shape.radius: 10 is out of range; allowed is a number, above 0 and at most 9"),
        ({"name": "a", "shape": 3}, "shape: 3 is not a table"),
        ({"shape": {"kind": "square"}}, "name: this key is missing; it is a string"),
        ({"name": "a", "shape": {"kind": "square"}, "sizes": [1, -1]}, "sizes[1]: -1 is out of range; allowed is a whole number, at least 0"),
        ({"name": "a", "shape": {"kind": "square"}, "sizes": 3}, "sizes: 3 is not a list, each a whole number, at least 0"),
        ({"name": 3, "shape": {"kind": "square"}}, "name: 3 is not a string"),
    ],
)  # fmt: skip
def test_nested_errors_name_the_path(table: dict[str, object], sentence: str) -> None:
    with pytest.raises(RecipeError) as caught:
        build(Drawing, table)
    assert str(caught.value) == sentence


def test_command_line_values() -> None:
    assert [parse_value(raw) for raw in ("5", "1e-3", "true", "[1, 2]", "'x'", "../a b", "5\nother = 3")] == [
        5, 1e-3, True, [1, 2], "x", "../a b", "5\nother = 3",
    ]  # fmt: skip


def test_override_does_not_change_the_table() -> None:
    table = {"train": {"steps": 1}}
    override(table, {"train.steps": 2})
    assert table == {"train": {"steps": 1}}


def test_optional_values() -> None:
    assert coerce_union((int, type(None)), 3, "x") == 3
    with pytest.raises(RecipeError, match="x: 3 is not true or false"):
        coerce(bool, 3, "x")
