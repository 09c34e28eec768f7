"""One concept has one name, the field's own: none of the old ones is left."""

import shutil

import pytest
from support import old_names


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git to list the files")
def test_no_old_name_is_left() -> None:
    if not (old_names.ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    assert old_names.found() == []
