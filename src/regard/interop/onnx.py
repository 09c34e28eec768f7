"""Export to ONNX, and the exported models in onnxruntime.

A translation model is two graphs, an encoder and a decoder step with cache; other models are one graph.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard import storage
from regard.errors import RegardError
from regard.interop.onnx_graphs import Graph, encoder_graph, seq2seq_graphs
from regard.interop.packages import import_package
from regard.nn import Recorder
from regard.nn.seq2seq import Seq2SeqModel, State

ENCODER, DECODER, SINGLE = "encoder.onnx", "decoder.onnx", "classifier.onnx"
OPSET = 18


def write(model: Seq2SeqModel, folder: Path, max_length: int) -> None:
    """Write a translation model as two graphs.

    Args:
        model: A Transformer or recurrent model.
        folder: Folder to write.
        max_length: Maximum number of tokens of a sentence; the batch size is not limited.
    """
    encoder, step = seq2seq_graphs(model, max_length)
    trace(encoder, folder / ENCODER)
    trace(step, folder / DECODER)


def write_encoder(model: nn.Module, folder: Path) -> None:
    """Write a BERT, GPT classifier or ViT as one graph, for any batch size and length."""
    trace(encoder_graph(model), folder / SINGLE)


@torch.no_grad()
def trace(graph: Graph, path: Path) -> None:
    """Write a module as an ONNX file."""
    for package in ("onnx", "onnxscript"):
        import_package(package)
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(), quiet_exporter():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            graph.eval(),
            tuple(graph.example()),
            dynamo=True,
            input_names=graph.inputs,
            output_names=graph.outputs,
            dynamic_shapes=graph.dynamic_shapes(),
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    program.save(str(path), external_data=False)


@contextmanager
def quiet_exporter() -> Iterator[None]:
    """Suppress the log messages of PyTorch's ONNX exporter."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@dataclass(frozen=True)
class OnnxState:
    """Inputs of the decoder step other than the tokens, by name; the first axis is the batch."""

    parts: dict[str, Any]

    def select(self, rows: Tensor) -> "OnnxState":
        indices = rows.numpy()
        return OnnxState({name: np.take(part, indices, axis=0) for name, part in self.parts.items()})


class OnnxTranslator:
    """An exported translation model in onnxruntime, with the interface that the search needs."""

    def __init__(self, folder: Path) -> None:
        package = import_package("onnxruntime")
        self.name = f"onnxruntime {package.__version__}"
        self.encoder, self.decoder = (open_session(package, folder, name) for name in (ENCODER, DECODER))
        self.encoder_outputs = names_of(self.encoder.get_outputs())
        self.decoder_outputs = names_of(self.decoder.get_outputs())
        shapes = {tensor.name: tensor.shape for tensor in self.decoder.get_inputs()}
        self.cache_shapes = {
            name: shape for name, shape in shapes.items() if name not in {"tokens", *self.encoder_outputs}
        }
        """Caches, which are empty at the start: (batch, heads, past, size)."""
        if (
            names_of(self.encoder.get_inputs()) != ["source"]
            or "tokens" not in shapes
            or self.decoder_outputs[:1] != ["scores"]
            or any(name.removeprefix("next.") not in shapes for name in self.decoder_outputs[1:])
            or any(len(shape) != 4 for shape in self.cache_shapes.values())
        ):
            raise RegardError(f"{folder}: {ENCODER} and {DECODER} are not a model that regard exported")
        self.vocabulary = self.decoder.get_outputs()[0].shape[1]

    def start(self, source: Tensor) -> OnnxState:
        outputs = run(self.encoder, self.encoder_outputs, {"source": source.numpy()})
        parts = dict(zip(self.encoder_outputs, outputs, strict=True))
        for name, (_, heads, _, size) in self.cache_shapes.items():
            parts[name] = np.zeros((len(source), heads, 0, size), np.float32)
        return OnnxState(parts)

    def step(self, tokens: Tensor, state: State, record: Recorder | None = None) -> tuple[Tensor, OnnxState]:
        assert isinstance(state, OnnxState)
        if record is not None:
            raise RegardError("an ONNX graph does not return attention weights; decode.coverage must be 0")
        inputs = {"tokens": tokens.numpy(), **state.parts}
        scores, *outputs = run(self.decoder, self.decoder_outputs, inputs)
        names = [name.removeprefix("next.") for name in self.decoder_outputs[1:]]
        updated = dict(zip(names, outputs, strict=True))
        return torch.from_numpy(scores), OnnxState({**state.parts, **updated})


class OnnxEncoder:
    """An exported BERT, GPT classifier or ViT in onnxruntime."""

    def __init__(self, folder: Path) -> None:
        package = import_package("onnxruntime")
        self.name = f"onnxruntime {package.__version__}"
        self.session = open_session(package, folder, SINGLE)
        self.inputs = names_of(self.session.get_inputs())
        self.outputs = names_of(self.session.get_outputs())

    def __call__(self, *tensors: Tensor) -> Tensor:
        """Outputs for ids and segments, for ids, or for pixels; additional inputs are ignored."""
        inputs = dict(zip(self.inputs, (tensor.numpy() for tensor in tensors), strict=False))
        return torch.from_numpy(run(self.session, self.outputs, inputs)[0])


def names_of(tensors: Sequence[Any]) -> list[str]:
    """Names of the inputs or outputs of a session."""
    return [tensor.name for tensor in tensors]


def run(session: Any, names: list[str], inputs: dict[str, Any]) -> list[Any]:
    """The outputs with these names; RegardError where the inputs do not match the graph."""
    try:
        outputs: list[Any] = session.run(names, inputs)
    except Exception as problem:  # see `open_session`
        raise RegardError(f"onnxruntime cannot run this model: {' '.join(str(problem).split())}") from None
    return outputs


def open_session(package: Any, folder: Path, name: str) -> Any:
    """Load an ONNX file with onnxruntime, on the CPU."""
    path = storage.inside(folder, name)
    if not path.is_file():
        raise RegardError(f"{folder} is not an ONNX export of regard: it has no {name}")
    settings = package.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    settings.log_severity_level = 3
    try:
        return package.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    except Exception as problem:  # the library raises various types
        raise RegardError(f"{path} is damaged: onnxruntime reports {' '.join(str(problem).split())}") from None
