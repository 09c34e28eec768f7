"""A package that is missing is a sentence to a user, and an ImportError to who can do without."""

import pytest

from regard.errors import RegardError
from regard.interop.packages import import_package


def test_a_missing_package_is_told_with_what_to_install() -> None:
    sentence = r"^no_such_engine is not installed: pip install 'regard\[exchange\]'$"
    for kind in (RegardError, ImportError):
        with pytest.raises(kind, match=sentence):
            import_package("no_such_engine.specs")


def test_a_package_that_is_there() -> None:
    assert import_package("json").loads("[1]") == [1]
