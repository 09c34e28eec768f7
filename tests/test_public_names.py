"""What `import regard` offers: exactly these names, each with its type, and none of them imported before it is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import regard

FUNCTIONS = {"enable_reproducible_mkl", "load", "load_recipe", "train"}
ERRORS = {"RecipeError", "RegardError"}
MODELS = {
    "Classifier", "Encoder", "ImageClassifier", "ImageGenerator", "KernelRegressor", "LanguageModel", "LoadedModel",
    "MaskedLanguageModel", "QuestionAnswerer", "Tagger", "Translator",
}  # fmt: skip
CONFIGS = {"BeamSearchConfig", "DiffusionConfig", "GenerationConfig", "Recipe", "SamplingConfig"}
RESULTS = {
    "AnswerSpan", "AttentionMaps", "Completion", "Evaluation", "GeneratedImages", "ImageAttention", "LabelPrediction",
    "NamedEntity", "Quality", "TaggedSentence", "TaskScores", "Translation",
}  # fmt: skip
RUNS = {"KernelRun", "TaskRun", "TrainedRun", "TranslationRun"}


def test_the_exported_names_are_these() -> None:
    names = FUNCTIONS | ERRORS | MODELS | CONFIGS | RESULTS | RUNS | {"__version__"}
    assert set(regard.__all__) == names
    assert len(regard.__all__) == len(names)
    assert dir(regard) == sorted(names)


@pytest.mark.parametrize("name", sorted(MODELS | CONFIGS | RESULTS | RUNS))
def test_each_type_is_the_one_of_its_module(name: str) -> None:
    kind = getattr(regard, name)
    assert isinstance(kind, type)
    assert kind.__name__ == name
    assert kind.__doc__


def test_a_type_checker_sees_the_same_names() -> None:
    tree = ast.parse(Path(regard.__file__).read_text("utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {name: f"regard.{home}" for name, home in regard.MODULES.items()}


def test_models_are_loaded_models_and_each_says_what_it_does() -> None:
    for name in MODELS - {"LoadedModel"}:
        kind = getattr(regard, name)
        assert issubclass(kind, regard.LoadedModel)
        assert kind.does


def test_importing_it_imports_neither_torch_nor_numpy() -> None:
    program = "import sys, regard; print({'torch', 'numpy', 'regard.tasks'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'Translater'"):
        regard.Translater  # noqa: B018
