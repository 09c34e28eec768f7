"""A package that is missing is a sentence to a user, and an ImportError to who can do without."""

import pytest

from regard.errors import RegardError
from regard.interop.packages import needed


def test_a_missing_package_is_told_with_what_to_install() -> None:
    sentence = r"^no_such_engine is not installed: pip install 'regard\[exchange\]'$"
    for kind in (RegardError, ImportError):
        with pytest.raises(kind, match=sentence):
            needed("no_such_engine.specs")


def test_a_package_that_is_there() -> None:
    assert needed("json").loads("[1]") == [1]
