"""Packages that only an exchange needs: there, or a sentence that says how to get them."""

from importlib import import_module
from typing import Any

from regard.errors import RegardError


class Missing(RegardError, ImportError):
    """A package is not installed."""


def needed(name: str) -> Any:
    """The package."""
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        extra = "bench" if package == "transformers" else "exchange"
        raise Missing(f"{package} is not installed: pip install 'regard[{extra}]'") from None
