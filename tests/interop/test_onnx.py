"""Two graphs over onnxruntime are the model: any batch, any length, padding or none."""

from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from support.small_models import SENTENCES, rnn, transformer, write_run

from regard.config.models import RnnConfig, TransformerConfig
from regard.decoding import SamplingConfig
from regard.errors import RegardError
from regard.interop import onnx
from regard.interop.onnx_graphs import seq2seq_graphs
from regard.tasks.export import Exported, export
from regard.tasks.translation.exported_translator import ExportedTranslator, open_translator
from regard.tasks.translation.model import Translator

for package in ("onnx", "onnxruntime", "onnxscript"):
    pytest.importorskip(package, reason=f"{package} is not installed")

MODELS: dict[str, TransformerConfig | RnnConfig] = {
    "transformer": transformer(),
    "rotary": transformer(decoder_layers=1, position="rotary", norm="post", activation="swiglu"),
    "bahdanau": rnn(attention="bahdanau", bidirectional=True),
    "luong": rnn(attention="luong", cell="lstm", layers=2, input_feeding=True, bidirectional=True),
    "alibi": transformer(decoder_layers=1, position="alibi"),
    "relative": transformer(decoder_layers=1, position="relative", tie_embeddings="none"),
    "learned": transformer(decoder_layers=1, position="learned", activation="gelu"),
    "reversed": rnn(reverse=True, tie_embeddings="all", embedding=12),
    "dot": rnn(attention="luong", score="dot"),
}


SLOW = ("rotary", "alibi", "relative", "learned", "reversed", "dot")
"""A graph takes seconds to trace."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in MODELS],
)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The export `out` of a run beside it."""
    place = tmp_path_factory.mktemp("onnx")
    return export(write_run(place / "run", MODELS[request.param]), "onnx", place / "out")


@pytest.fixture(scope="module")
def both(made: Exported) -> tuple[Translator, ExportedTranslator]:
    """A run, and its export opened."""
    return Translator.load(made.folder.parent / "run"), ExportedTranslator(made.folder, "onnx")


def test_batch_and_length_are_open(both: tuple[Translator, ExportedTranslator]) -> None:
    model = cast(onnx.OnnxTranslator, both[1].pipeline.model)
    assert model.encoder.get_inputs()[0].shape == ["batch", "length"]
    assert all(each.shape[0] == "batch" for each in (*model.decoder.get_inputs(), *model.decoder.get_outputs()))
    assert {each.shape[2] for each in model.decoder.get_inputs() if "memory" in each.name} <= {"length"}


@torch.inference_mode()
def test_scores_of_every_step_are_the_models(both: tuple[Translator, ExportedTranslator]) -> None:
    run, exported = both
    source = torch.tensor([[5, 6, 7, 8, 9, 1], [6, 1, 2, 2, 2, 2], [7, 8, 9, 5, 1, 2], [9, 9, 9, 1, 2, 2]])
    states = [each.pipeline.model.start(source) for each in (run, exported)]
    tokens = torch.zeros(4, dtype=torch.long)
    for step in range(6):
        ours, states[0] = run.pipeline.model.step(tokens, states[0])
        theirs, states[1] = exported.pipeline.model.step(tokens, states[1])
        np.testing.assert_allclose(theirs.numpy(), ours.numpy(), atol=2e-5)
        tokens = ours[:, 4:].argmax(1) + 4
        if step == 2:  # as a search does: some go on twice, some not at all
            rows = torch.tensor([3, 3, 0, 1, 1])
            states, tokens = [state.select(rows) for state in states], tokens[rows]


def test_the_same_text(both: tuple[Translator, ExportedTranslator]) -> None:
    run, exported = both
    for beam in (1, 4):
        ours, theirs = (
            each.pipeline.translate(["", *SENTENCES], run.options(beam, beam)) for each in (run, exported)
        )
        assert [each.text for each in theirs] == [each.text for each in ours]
        assert theirs[1].score == pytest.approx(ours[1].score, abs=1e-5)


def test_translations_can_be_drawn_too(both: tuple[Translator, ExportedTranslator]) -> None:
    drawn = [
        [text.text for text in each.pipeline.translate(SENTENCES, sampling=SamplingConfig(3, 1.0))]
        for each in both
    ]
    assert drawn[0] == drawn[1]


def test_coverage_is_refused(both: tuple[Translator, ExportedTranslator]) -> None:
    from regard.decoding import BeamSearchConfig

    with pytest.raises(RegardError, match=r"decode\.coverage must be 0"):
        both[1].pipeline.translate(SENTENCES, BeamSearchConfig(coverage=0.2))


@pytest.mark.parametrize("name", MODELS)
def test_a_graph_names_each_input_and_output(name: str) -> None:
    from support.small_models import vocabulary

    from regard.nn.build import build

    words = vocabulary().source.size
    reader, step = seq2seq_graphs(build(MODELS[name], words, words, 2), 40)
    assert len(step.inputs) == len(step.axes) == len(step.example())
    with torch.no_grad():
        assert len(step(*step.example())) == len(step.outputs)
    assert set(reader.outputs) <= set(step.inputs)
    assert {each.removeprefix("next.") for each in step.outputs[1:]} <= set(step.inputs)


def test_damaged_and_foreign_folders(both: tuple[Translator, ExportedTranslator], tmp_path: Path) -> None:
    run = both[0]
    run.vocabulary.save(tmp_path)
    (tmp_path / "recipe.toml").write_text((run.folder.path / "recipe.toml").read_text("utf-8"), "utf-8")
    (tmp_path / onnx.ENCODER).write_bytes(b"nothing of the kind")
    with pytest.raises(RegardError, match="is damaged: onnxruntime reports"):
        open_translator(tmp_path, "onnx")
    (tmp_path / onnx.ENCODER).write_bytes((run.folder.path.parent / "out" / onnx.ENCODER).read_bytes())
    with pytest.raises(RegardError, match=r"it has no decoder\.onnx"):
        open_translator(tmp_path, "onnx")
    (tmp_path / onnx.DECODER).write_bytes((run.folder.path.parent / "out" / onnx.ENCODER).read_bytes())
    with pytest.raises(RegardError, match="are not a model that regard exported"):
        open_translator(tmp_path, "onnx")


def test_a_vocabulary_that_belongs_to_another_model(
    both: tuple[Translator, ExportedTranslator],
) -> None:
    with pytest.raises(RegardError, match="onnxruntime cannot run this model"):
        both[1].pipeline.model.start(torch.tensor([[5000, 1]]))


def test_an_export_tells_what_its_check_found(made: Exported) -> None:
    assert (made.check.sentences, *made.check.same.values()) == (6, 6, 6)
    assert made.check.difference < 1e-5
    assert "| 6 of 6 | 6 of 6 |" in (made.folder / "README.md").read_text("utf-8")
