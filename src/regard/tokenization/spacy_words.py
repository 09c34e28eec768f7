"""spaCy's rule tokenizers, an optional extra: only their rules are used, no trained pipeline."""

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module

from regard.errors import RegardError


@lru_cache(maxsize=8)
def spacy_split(language: str | None) -> Callable[[str], list[str]]:
    """Text to spaCy's words; the second of two blanks is a word too, as in spaCy."""
    if not language:
        raise RegardError("a tokenizer of kind spacy needs a language, such as language='de' or language='en'")
    try:
        spacy = import_module("spacy")  # by name: mypy runs where the extra is not installed
    except ImportError:
        raise RegardError(
            "a tokenizer of kind spacy needs spaCy, which is not installed: pip install 'regard[spacy]'"
        ) from None
    try:
        tokenizer = spacy.blank(language).tokenizer
    except (ImportError, OSError, ValueError) as problem:
        raise RegardError(
            f"spaCy cannot set up its rules for language {language!r}: {str(problem).splitlines()[0]}"
        ) from None
    return lambda text: [token.text for token in tokenizer(text)]
