"""Translation models in another tool's format: written by `regard export`, and run by that tool's engine."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from regard import storage
from regard.decoding import BeamSearchConfig, TranslationPipeline
from regard.errors import RegardError
from regard.interop import ctranslate2, huggingface_marian, onnx
from regard.interop.ctranslate2 import Quantization
from regard.interop.model_folders import detect_kind, expect_kind
from regard.tasks.export import Format
from regard.tasks.registry import load_recipe, spec_of
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.model import Translator
from regard.tasks.translation.task import search_options
from regard.tasks.translation.vocabulary import Vocabulary
from regard.tokenization import Tokenizer

EngineName = Literal["ctranslate2", "onnx"]
FILES: dict[EngineName, str] = {
    "ctranslate2": "config.json, model.bin, its vocabulary, recipe.toml, tokenizer.json",
    "onnx": f"{onnx.ENCODER}, {onnx.DECODER}, recipe.toml, tokenizer.json",
}
"""The files of an export, for error messages."""


def write_export(
    loaded: Translator, to: Format, folder: Path, quantization: Quantization | None = None
) -> None:
    """Write model and vocabulary in another tool's format; the model card is written after the check."""
    if loaded.datastore is not None:
        raise RegardError(
            f"{loaded.folder.path} has a kNN datastore, which no other tool reads; "
            f"`regard remember {loaded.folder.path} --forget` removes it"
        )
    recipe, vocabulary = loaded.recipe, loaded.vocabulary
    max_length = recipe.model.max_length
    match to:
        case "ctranslate2":
            pieces = vocabulary_pieces(vocabulary.source), vocabulary_pieces(vocabulary.target)
            ctranslate2.write(loaded.model, *pieces, folder, max_length, quantization)
        case "onnx":
            onnx.write(loaded.model, folder, max_length)
        case "huggingface":
            tokenizer = huggingface_marian.check_tokenizer(vocabulary.source, vocabulary.target)
            huggingface_marian.write(loaded.model, recipe.model, recipe.decode, recipe.to_toml(), folder)
            huggingface_marian.write_tokenizer(tokenizer, folder, max_length)
            return
    vocabulary.save(folder)
    storage.write_text(folder / "recipe.toml", recipe.to_toml())


def vocabulary_pieces(tokenizer: Tokenizer) -> Sequence[str]:
    """The piece of each id."""
    return tokenizer.tokens(range(tokenizer.size))


class ExportedTranslator:
    """An exported translation model, run by CTranslate2 or ONNX Runtime; the counterpart of `Translator`."""

    def __init__(self, folder: Path, engine: EngineName) -> None:
        expect_kind(folder, engine, FILES[engine])
        self.recipe = exported_recipe(folder)
        self.vocabulary = Vocabulary.load(folder)
        source, target = self.vocabulary.source, self.vocabulary.target
        model: ctranslate2.CTranslate2 | onnx.OnnxTranslator
        if engine == "ctranslate2":
            model = ctranslate2.CTranslate2(folder, vocabulary_pieces(source), vocabulary_pieces(target))
        else:
            model = onnx.OnnxTranslator(folder)
            if model.vocabulary != target.size:
                raise RegardError(
                    f"{folder / onnx.DECODER} has {model.vocabulary} output ids, and its vocabulary "
                    f"{target.size}"
                )
        self.name = model.name
        self.pipeline = TranslationPipeline(model, source, target, self.recipe.model.max_length)

    def options(self, beam: int | None = None, nbest: int = 1) -> BeamSearchConfig:
        """The recipe's search settings with another beam size or n-best size."""
        return search_options(self.recipe, beam, nbest)


def open_translator(
    folder: Path, engine: EngineName | Literal["regard"] | None, ensemble: Sequence[Path] = ()
) -> Translator | ExportedTranslator:
    """Open a run or an export with an engine.

    Args:
        folder: A run folder or an export of a translation model.
        engine: What computes; a run is exported to a temporary folder first where another engine is named.
            Default: regard for a run, the export's own engine for an export.
        ensemble: Other runs that translate together with this one; only regard has ensembles.

    Raises:
        RegardError: The folder does not fit the engine, or does not hold a translation model.
    """
    kind = detect_kind(folder) if folder.is_dir() else "run"
    if engine is None and kind in ("ctranslate2", "onnx"):
        engine = kind
    if engine is None or engine == "regard":
        if kind in FILES:
            raise RegardError(f"{folder} is an export for --engine {kind}; expected a run folder")
        if kind == "huggingface":
            raise RegardError(f"{folder} is a Hugging Face folder; `regard import` makes a run of one")
        return Translator.load(folder, *ensemble)
    if ensemble:
        raise RegardError(f"--with combines runs that regard executes itself, not --engine {engine}")
    if kind != "run":
        return ExportedTranslator(folder, engine)
    with tempfile.TemporaryDirectory() as temporary:
        write_export(Translator.load(folder), engine, Path(temporary))
        return ExportedTranslator(Path(temporary), engine)


def exported_recipe(folder: Path) -> TranslationRecipe:
    """The recipe of the run that was exported."""
    if not (folder / "recipe.toml").is_file():
        raise RegardError(f"{folder} has no recipe.toml; it was not made by `regard export`")
    recipe = load_recipe(str(folder / "recipe.toml"))
    if not isinstance(recipe, TranslationRecipe):
        raise spec_of(recipe).mismatch(folder, "not one that translates")
    return recipe
