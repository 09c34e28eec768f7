"""The files of an export: a run's model and vocabulary as another tool reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from regard import storage
from regard.errors import RegardError
from regard.interop import ctranslate2, marian, onnx, tokenizer_files
from regard.interop.ctranslate2 import Quantization
from regard.tasks.translation.model import Translator
from regard.tokenization import Tokenizer

Format = Literal["ctranslate2", "onnx", "huggingface"]

__all__ = ["Format", "Quantization", "words_of", "write"]


def write(
    loaded: Translator,
    to: Format,
    folder: Path,
    quantization: Quantization | None = None,
) -> None:
    """All files but the card."""
    if loaded.datastore is not None:
        raise RegardError(
            f"{loaded.folder.path} asks the sentences it remembers, which no other tool does; "
            f"`regard remember {loaded.folder.path} --forget` lets it translate as it was trained"
        )
    recipe, vocabulary = loaded.recipe, loaded.vocabulary
    max_length = recipe.model.max_length
    match to:
        case "ctranslate2":
            words = words_of(vocabulary.source), words_of(vocabulary.target)
            ctranslate2.write(loaded.model, *words, folder, max_length, quantization)
        case "onnx":
            onnx.write(loaded.model, folder, max_length)
        case "huggingface":
            tokenizer = tokenizer_files.check(vocabulary.source, vocabulary.target)
            marian.write(loaded.model, recipe.model, recipe.decode, recipe.to_toml(), folder)
            tokenizer_files.write(tokenizer, folder, max_length)
            return
    vocabulary.save(folder)
    storage.write_text(folder / "recipe.toml", recipe.to_toml())


def words_of(tokenizer: Tokenizer) -> Sequence[str]:
    """The word of each id."""
    return tokenizer.tokens(range(tokenizer.size))
