"""What CTranslate2 says is what the model says."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_models import SENTENCES, rnn, transformer, write_run

from regard.config.models import RnnConfig, TransformerConfig
from regard.decoding import SamplingConfig
from regard.errors import RegardError
from regard.tasks.export import export
from regard.tasks.translation.exported_translator import ExportedTranslator, open_translator, write_export
from regard.tasks.translation.model import Translator
from regard.tokenization import Tokenizer

pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")

KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "pre": ({"norm": "pre"}, {}),
    "post": ({"norm": "post", "activation": "gelu"}, {}),
    "learned": ({"position": "learned", "activation": "silu"}, {}),
    "swiglu": ({"activation": "swiglu", "tie_embeddings": "output"}, {"joint": False}),
    "words": ({"tie_embeddings": "none"}, {"joint": False, "kind": "words"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_translations_and_scores(tmp_path: Path, kind: str) -> None:
    model, text = KINDS[kind]
    run = Translator.load(write_run(tmp_path / "run", transformer(**model), **text))
    write_export(run, "ctranslate2", tmp_path / "out")
    exported = ExportedTranslator(tmp_path / "out", "ctranslate2")
    ids = run.vocabulary.source.encode_batch(SENTENCES)
    ours, theirs = (each.pipeline.search_ids(ids, run.options(1)) for each in (run, exported))
    assert [[each.ids for each in found] for found in theirs] == [
        [each.ids for each in found] for found in ours
    ]
    for (one,), (other,) in zip(ours, theirs, strict=True):
        assert other.log_probability == pytest.approx(one.log_probability, abs=1e-4)
    # Weights by chance do not make up their mind, so the two searches end at different times: what the other one
    # found must have the probability that our model gives it.
    for source, found in zip(ids, exported.pipeline.search_ids(ids, run.options(4, 3)), strict=True):
        assert len(found) == 3
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
        for each in found:
            assert each.log_probability == pytest.approx(log_probability(run, source, each.ids), abs=1e-4)


@torch.no_grad()
def log_probability(run: Translator, source: list[int], target: tuple[int, ...]) -> float:
    """Of a translation and its end, symbols that are no text and an empty translation left out."""
    scores = run.model(torch.tensor([[*source, Tokenizer.end]]), torch.tensor([[Tokenizer.begin, *target]]))[0]
    scores[:, [Tokenizer.begin, Tokenizer.padding, Tokenizer.unknown]] = -torch.inf
    scores[0, Tokenizer.end] = -torch.inf
    steps = torch.arange(len(scores))
    return float(scores.log_softmax(-1)[steps, torch.tensor([*target, Tokenizer.end])].sum())


def test_an_empty_line_stays_empty_and_a_long_one_is_split(tmp_path: Path) -> None:
    exported = open_translator(write_run(tmp_path / "run", transformer()), "ctranslate2")
    told: list[str] = []
    found = exported.pipeline.translate(["", "eins zwei " * 20], exported.options(1), warn=told.append)
    assert found[0].text == ""
    assert found[1].text
    assert len(told) == 1


def test_nothing_is_longer_than_the_model_has_places_for(tmp_path: Path) -> None:
    run = Translator.load(write_run(tmp_path / "run", transformer(position="learned", max_length=12)))
    with torch.no_grad():
        run.model.output_bias[Tokenizer.end] = -1e4  # it never ends by itself
    write_export(run, "ctranslate2", tmp_path / "out")
    exported = ExportedTranslator(tmp_path / "out", "ctranslate2")
    for beam in (1, 2):
        ours, theirs = (each.pipeline.search_ids([[5, 6, 7]], run.options(beam)) for each in (run, exported))
        assert len(ours[0][0].ids) == len(theirs[0][0].ids) == 12


def test_int8_is_smaller_and_says_so(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", transformer(d_model=64, d_ff=128))
    whole, small = (
        export(run, "ctranslate2", tmp_path / name, kind) for name, kind in (("a", None), ("b", "int8"))
    )
    assert "float32" in whole.check.engine
    assert "int8" in small.check.engine
    assert whole.check.same["greedy"] == len(SENTENCES)
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("a", "b")]
    assert sizes[1] < 0.5 * sizes[0]
    card = (tmp_path / "b" / "README.md").read_text("utf-8")
    assert "".join(f"| {count} of 6 " for count in small.check.same.values()) in card


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (rnn(attention="bahdanau"), "supports Transformers only"),
        (transformer(position="rotary"), "supports sinusoidal and learned positions only"),
        (
            transformer(encoder_layers=1, decoder_layers=1, position="relative"),
            "supports sinusoidal and learned positions only",
        ),
        (transformer(score="general"), "supports the scaled dot product score only"),
    ],
    ids=["rnn", "rotary", "relative", "score"],
)
def test_what_it_cannot_run_is_refused(
    tmp_path: Path, model: TransformerConfig | RnnConfig, sentence: str
) -> None:
    run = write_run(tmp_path / "run", model)
    with pytest.raises(RegardError, match=sentence):
        export(run, "ctranslate2", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".*"))


def test_nothing_is_drawn_by_chance(tmp_path: Path) -> None:
    exported = open_translator(write_run(tmp_path / "run", transformer()), "ctranslate2")
    with pytest.raises(RegardError, match="supports neither target prefixes nor sampling"):
        exported.pipeline.translate(SENTENCES, sampling=SamplingConfig(1, 1.0))


def test_damaged_and_foreign_folders(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", transformer())
    folder = tmp_path / "out"
    write_export(Translator.load(run), "ctranslate2", folder)
    with pytest.raises(
        RegardError, match=r"is a CTranslate2 model; expected was an ONNX export: encoder\.onnx"
    ):
        open_translator(folder, "onnx")
    with pytest.raises(RegardError, match="is an export for --engine ctranslate2"):
        open_translator(folder, "regard")
    whole = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RegardError, match="is damaged: CTranslate2 reports"):
        open_translator(folder, None)
    (folder / "model.bin").write_bytes(whole)
    (folder / "shared_vocabulary.json").write_text('["<s>", "</s>"]', "utf-8")
    with pytest.raises(RegardError, match="do not match"):
        open_translator(folder, None)
    (folder / "recipe.toml").unlink()
    with pytest.raises(RegardError, match=r"has no recipe\.toml; it was not made by `regard export`"):
        open_translator(folder, None)
    (folder / "model.bin").unlink()
    with pytest.raises(RegardError, match="a folder without a known model; expected was a CTranslate2"):
        open_translator(folder, "ctranslate2")
