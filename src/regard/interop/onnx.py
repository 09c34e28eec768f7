"""Models as ONNX graphs, and again as models over onnxruntime.

One that translates is two graphs, reader and step with cache; one that reads texts or images is one.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard import storage
from regard.errors import RegardError
from regard.interop.onnx_graphs import Graph, graphs
from regard.interop.onnx_readers import graph as reading
from regard.interop.packages import needed
from regard.nn import Recorder
from regard.nn.seq2seq import Seq2SeqModel, State

READER, STEP, WHOLE = "encoder.onnx", "decoder.onnx", "classifier.onnx"
OPSET = 18


def write(model: Seq2SeqModel, folder: Path, max_length: int) -> None:
    """Both graphs; sentences of any number, with at most `max_length` tokens."""
    reader, step = graphs(model, max_length)
    trace(reader, folder / READER)
    trace(step, folder / STEP)


def write_reader(model: nn.Module, folder: Path) -> None:
    """The one graph of a model that reads; texts or images of any number, texts of any length it allows."""
    trace(reading(model), folder / WHOLE)


@torch.no_grad()
def trace(graph: Graph, path: Path) -> None:
    for package in ("onnx", "onnxscript"):
        needed(package)
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            graph.eval(),
            tuple(graph.example()),
            dynamo=True,
            input_names=graph.inputs,
            output_names=graph.outputs,
            dynamic_shapes=graph.open_axes(),
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    program.save(str(path), external_data=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what the tracer logs of its own workings."""
    logs = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [each.level for each in logs]
    for each in logs:
        each.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for each, level in zip(logs, levels, strict=True):
            each.setLevel(level)


@dataclass(frozen=True)
class OnnxState:
    """What the step takes in beside the tokens, by name; the first axis of each is the sentence."""

    parts: dict[str, Any]

    def select(self, rows: Tensor) -> "OnnxState":
        chosen = rows.numpy()
        return OnnxState({name: np.take(each, chosen, axis=0) for name, each in self.parts.items()})


class OnnxModel:
    """An exported folder over onnxruntime; the search asks it as it asks any model."""

    def __init__(self, folder: Path) -> None:
        package = needed("onnxruntime")
        self.name = f"onnxruntime {package.__version__}"
        self.reader, self.stepper = (opened(package, folder, name) for name in (READER, STEP))
        self.found = [each.name for each in self.reader.get_outputs()]
        self.moved = [each.name for each in self.stepper.get_outputs()]
        asked = {each.name: each.shape for each in self.stepper.get_inputs()}
        self.empty = {name: shape for name, shape in asked.items() if name not in {"tokens", *self.found}}
        """Caches, which begin with nothing in them: (batch, heads, past, size)."""
        read = [each.name for each in self.reader.get_inputs()]
        if (
            read != ["source"]
            or "tokens" not in asked
            or self.moved[:1] != ["scores"]
            or any(name.removeprefix("next.") not in asked for name in self.moved[1:])
            or any(len(shape) != 4 for shape in self.empty.values())
        ):
            raise RegardError(f"{folder}: {READER} and {STEP} are not those of a model that regard exported")
        self.vocabulary = self.stepper.get_outputs()[0].shape[1]

    def start(self, source: Tensor) -> OnnxState:
        found = ran(self.reader, self.found, {"source": source.numpy()})
        parts = dict(zip(self.found, found, strict=True))
        for name, (_, heads, _, size) in self.empty.items():
            parts[name] = np.zeros((len(source), heads, 0, size), np.float32)
        return OnnxState(parts)

    def step(self, tokens: Tensor, state: State, record: Recorder | None = None) -> tuple[Tensor, OnnxState]:
        assert isinstance(state, OnnxState)
        if record is not None:
            raise RegardError("an ONNX graph does not tell where it looks; decode.coverage must be 0")
        scores, *after = ran(self.stepper, self.moved, {"tokens": tokens.numpy(), **state.parts})
        moved = {name.removeprefix("next."): each for name, each in zip(self.moved[1:], after, strict=True)}
        return torch.from_numpy(scores), OnnxState({**state.parts, **moved})


class OnnxReader:
    """An exported model that reads, over onnxruntime."""

    def __init__(self, folder: Path) -> None:
        package = needed("onnxruntime")
        self.name = f"onnxruntime {package.__version__}"
        self.session = opened(package, folder, WHOLE)
        self.inputs = [each.name for each in self.session.get_inputs()]
        self.outputs = [each.name for each in self.session.get_outputs()]

    def __call__(self, *given: Tensor) -> Tensor:
        """What it says to ids and segments, to ids, or to pixels; what it has no use for is left out."""
        known = dict(zip(self.inputs, (each.numpy() for each in given), strict=False))
        return torch.from_numpy(ran(self.session, self.outputs, known)[0])


def ran(session: Any, wanted: list[str], given: dict[str, Any]) -> list[Any]:
    """What a graph puts out; graph and vocabulary may not belong together."""
    try:
        found: list[Any] = session.run(wanted, given)
    except Exception as problem:  # see `opened`
        raise RegardError(f"onnxruntime cannot run this model: {' '.join(str(problem).split())}") from None
    return found


def opened(package: Any, folder: Path, name: str) -> Any:
    path = storage.inside(folder, name)
    if not path.is_file():
        raise RegardError(f"{folder} is not an ONNX export of regard: it has no {name}")
    settings = package.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    settings.log_severity_level = 3
    try:
        return package.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    except Exception as problem:  # the library has a family of its own for each kind of damage
        raise RegardError(f"{path} is damaged: onnxruntime says {' '.join(str(problem).split())}") from None
