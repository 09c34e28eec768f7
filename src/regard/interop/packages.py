"""Optional packages for import and export."""

from importlib import import_module
from typing import Any

from regard.errors import RegardError


class MissingPackage(RegardError, ImportError):
    """An optional package is not installed."""


def import_package(name: str) -> Any:
    """Import an optional package or one of its modules.

    Raises:
        MissingPackage: It is not installed; the message says how to install it.
    """
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        extra = "bench" if package == "transformers" else "exchange"
        raise MissingPackage(f"{package} is not installed: pip install 'regard[{extra}]'") from None
