"""A missing package is a one-line error, and an ImportError for callers that can do without it."""

import pytest

from regard.errors import RegardError
from regard.interop.packages import import_package


def test_a_missing_package_is_reported_with_the_install_command() -> None:
    sentence = r"^no_such_engine is not installed: pip install 'regard\[exchange\]'$"
    for kind in (RegardError, ImportError):
        with pytest.raises(kind, match=sentence):
            import_package("no_such_engine.specs")


def test_an_installed_package_is_imported() -> None:
    assert import_package("json").loads("[1]") == [1]
