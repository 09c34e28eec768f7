"""The token store of the small training."""

from pathlib import Path

import pytest
import torch
from support.small_training import encode

from regard.data.token_store import TokenStore, open_or_build


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    generator = torch.Generator().manual_seed(0)
    words = [
        "".join(chr(97 + int(c)) for c in torch.randint(0, 20, (int(n),), generator=generator))
        for n in torch.randint(2, 9, (120,), generator=generator)
    ]
    pairs = [(word, word[::-1]) for word in words]
    return open_or_build(tmp_path / "store", lambda: pairs, encode, encode, (30, 30))
