"""Translation models that another engine runs: what `regard export` made, opened."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from regard.decoding import BeamSearchConfig, TranslationPipeline
from regard.errors import RegardError
from regard.interop import ctranslate2, onnx
from regard.interop.folders import expect, kind_of
from regard.tasks.formats import words_of, write
from regard.tasks.registry import load_recipe
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.model import Translator
from regard.tasks.translation.task import search_options
from regard.tasks.translation.vocabulary import Vocabulary

EngineName = Literal["ctranslate2", "onnx"]
FILES: dict[EngineName, str] = {
    "ctranslate2": "config.json, model.bin, its vocabulary, recipe.toml, tokenizer.json",
    "onnx": f"{onnx.READER}, {onnx.STEP}, recipe.toml, tokenizer.json",
}


class ExportedTranslator:
    """What `Translator` is for a run, for an export: the same text in and out, by another engine."""

    def __init__(self, folder: Path, engine: EngineName) -> None:
        expect(folder, engine, FILES[engine])
        self.recipe = recipe_in(folder)
        self.vocabulary = Vocabulary.load(folder)
        source, target = self.vocabulary.source, self.vocabulary.target
        model: ctranslate2.CTranslate2 | onnx.OnnxModel
        if engine == "ctranslate2":
            model = ctranslate2.CTranslate2(folder, words_of(source), words_of(target))
        else:
            model = onnx.OnnxModel(folder)
            if model.vocabulary != target.size:
                raise RegardError(
                    f"{folder / onnx.STEP} scores {model.vocabulary} ids, and its vocabulary has {target.size}"
                )
        self.name = model.name
        self.pipeline = TranslationPipeline(model, source, target, self.recipe.model.max_length)

    def options(self, beam: int | None = None, nbest: int = 1) -> BeamSearchConfig:
        """The recipe's way of searching, with another beam or more results."""
        return search_options(self.recipe, beam, nbest)


def open_engine(
    folder: Path, engine: EngineName | Literal["regard"] | None, beside: Sequence[Path] = ()
) -> Translator | ExportedTranslator:
    """A run or an export, with the engine named, else with the one it is made for.

    A run that another engine is to run is exported first, into a place that is gone afterwards. Runs `beside`
    it translate with it.
    """
    kind = kind_of(folder) if folder.is_dir() else "run"
    if engine is None and kind in ("ctranslate2", "onnx"):
        engine = kind
    if engine is None or engine == "regard":
        if kind in FILES:
            raise RegardError(f"{folder} is an export, which --engine {kind} runs; expected was a run folder")
        if kind == "huggingface":
            raise RegardError(f"{folder} is a Hugging Face folder; `regard import` makes a run of one")
        return Translator.load(folder, *beside)
    if beside:
        raise RegardError(f"--with is for runs that regard itself runs, not for {engine}")
    if kind != "run":
        return ExportedTranslator(folder, engine)
    with tempfile.TemporaryDirectory() as place:
        write(Translator.load(folder), engine, Path(place))
        return ExportedTranslator(Path(place), engine)


def recipe_in(folder: Path) -> TranslationRecipe:
    """The recipe of the run that was exported."""
    if not (folder / "recipe.toml").is_file():
        raise RegardError(f"{folder} has no recipe.toml: it was not made by `regard export`")
    recipe = load_recipe(str(folder / "recipe.toml"))
    if not isinstance(recipe, TranslationRecipe):
        raise RegardError(f"{folder} holds a model for {recipe.task}, not one that translates")
    return recipe
