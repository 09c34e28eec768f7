"""Sentence encoders of sentence-transformers: pooling, normalization and length honoured, other modules refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.small_bert_folder import their_weights, write_folder

import regard
from regard.errors import RegardError
from regard.interop import huggingface_bert
from regard.tasks.export import export
from regard.tasks.import_run import import_run

TEXTS = [
    "a b c",
    "d",
    "efg ab a b c d e f g h i j k l m",
]  # the last one has 21 tokens, and there are 20 positions
SAVED_BY_6 = "sentence_transformers.sentence_transformer.modules"
SAVED_BEFORE = "sentence_transformers.models"
KEYS = {"cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens", "mean": "pooling_mode_mean_tokens"}


def write_modules(folder: Path, *kinds: str, package: str = SAVED_BY_6, **pooling: Any) -> Path:
    """modules.json with the named modules, and the configuration of the pooling."""
    paths = ["" if kind == "Transformer" else f"{place}_{kind}" for place, kind in enumerate(kinds)]
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"{package}.{kind}"}
        for place, (path, kind) in enumerate(zip(paths, kinds, strict=True))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"embedding_dimension": 16, **pooling}))
    return folder


def expected(folder: Path, pooling: str, normal: bool) -> np.ndarray:
    """Vectors text by text, without padding, from the hidden states."""
    found = huggingface_bert.read(folder)
    vectors = []
    for text in TEXTS:
        ids = found.tokenizer.with_special_tokens(found.tokenizer.encode(text)[:18])
        with torch.no_grad():
            hidden = found.model.eval().bert(torch.tensor([ids]), torch.zeros(1, len(ids), dtype=torch.long))[0]
        vector = {"mean": hidden.mean(0), "cls": hidden[0], "max": hidden.max(0).values}[pooling]
        vectors.append(vector / vector.norm() if normal else vector)
    return torch.stack(vectors).numpy()


@pytest.mark.parametrize("normal", [True, False], ids=["normalized", "as they are"])
@pytest.mark.parametrize("saved", ["6", "before 6"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_pooling_and_normalisation_are_honoured(
    folder: Path, tmp_path: Path, pooling: str, saved: str, normal: bool
) -> None:
    kinds = ["Transformer", "Pooling", *["Normalize"] * normal]
    if saved == "6":
        write_modules(folder, *kinds, pooling_mode=pooling, include_prompt=True)
    else:
        older = {key: mode == pooling for mode, key in KEYS.items()}
        write_modules(folder, *kinds, package=SAVED_BEFORE, **older, pooling_mode_mean_sqrt_len_tokens=False)
    import_run(folder, tmp_path / "run")
    loaded = regard.load(tmp_path / "run")
    assert loaded.recipe.embed.pooling == pooling
    assert np.abs(loaded.embed(TEXTS) - expected(folder, pooling, normal)).max() < 1e-5


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_the_vectors_are_those_of_sentence_transformers(folder: Path, tmp_path: Path, pooling: str) -> None:
    """Also those of a run that was exported again, in which older keys name the pooling."""
    missing = "sentence-transformers 6 is not installed"
    package = pytest.importorskip("sentence_transformers", reason=missing)
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules", reason=missing)
    made = package.SentenceTransformer(
        modules=[modules.Transformer(str(folder), max_seq_length=9), modules.Pooling(16, pooling)], device="cpu"
    )
    made.save(str(tmp_path / "saved"))
    import_run(tmp_path / "saved", tmp_path / "run")
    ours = regard.load(tmp_path / "run").embed(TEXTS)
    assert np.abs(ours - made.encode(TEXTS)).max() < 1e-5
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    check = export(tmp_path / "run", "huggingface", tmp_path / "out", source=tmp_path / "texts.txt").check
    assert check.difference < 1e-5
    again = package.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert np.abs(ours - again.encode(TEXTS)).max() < 1e-5


def test_onnx_pools_in_the_same_way(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    import_run(write_modules(folder, "Transformer", "Pooling", pooling_mode="max"), tmp_path / "run")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    made = export(tmp_path / "run", "onnx", tmp_path / "out", source=tmp_path / "texts.txt")
    assert made.check.difference < 1e-4


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "weighted": ({"pooling_mode": "weightedmean"}, "the pooling mode is weightedmean; allowed is one of mean, cls and"),
    "last": ({"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}, "the pooling mode is lasttoken;"),
    "root": ({"pooling_mode": ["mean_sqrt_len_tokens"]}, "the pooling mode is mean_sqrt_len_tokens;"),
    "two": ({"pooling_mode": ["cls", "mean"]}, r"the pooling mode is cls \+ mean; allowed is one"),
    "two, older": ({KEYS["mean"]: True, KEYS["max"]: True}, r"the pooling mode is mean \+ max; allowed is one"),
    "unknown": ({"pooling_mode_of_mine": True}, "the pooling mode is pooling_mode_of_mine;"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_another_pooling_is_refused_by_name(folder: Path, name: str) -> None:
    pooling, sentence = REFUSED[name]
    write_modules(folder, "Transformer", "Pooling", **pooling)
    with pytest.raises(RegardError, match=sentence):
        huggingface_bert.read(folder)


@pytest.mark.parametrize(
    ("kinds", "package", "named"),
    [
        (("Transformer", "Pooling", "Dense"), SAVED_BY_6, "Transformer, Pooling, Dense"),
        (("Transformer", "Pooling", "Dense", "Normalize"), SAVED_BEFORE, "Transformer, Pooling, Dense, Normalize"),
        (("Transformer", "Normalize", "Pooling"), SAVED_BY_6, "Transformer, Normalize, Pooling"),
        (("MLMTransformer", "SpladePooling"), SAVED_BY_6, "MLMTransformer, SpladePooling"),
        (("Transformer", "Pooling"), "mine.modules", r"mine\.modules\.Transformer, mine\.modules\.Pooling"),
    ],
    ids=["dense", "dense before", "order", "splade", "foreign"],
)  # fmt: skip
def test_another_module_is_refused_by_name(
    folder: Path, kinds: tuple[str, ...], package: str, named: str
) -> None:
    write_modules(folder, *kinds, package=package, pooling_mode="mean")
    with pytest.raises(RegardError, match=f"its modules are {named}; allowed are Transformer, Pooling and"):
        huggingface_bert.read(folder)


def test_a_head_does_not_hide_the_pooling(tmp_path: Path) -> None:
    head = {"qa_outputs.weight": torch.zeros(2, 16), "qa_outputs.bias": torch.zeros(2)}
    folder = write_folder(tmp_path / "theirs", {**their_weights("bert."), **head})
    write_modules(folder, "Transformer", "Pooling", "Normalize", pooling_mode="mean")
    assert huggingface_bert.read(folder).head == "span"
    write_modules(folder, "Transformer", "Pooling", "Normalize", pooling_mode="cls")
    with pytest.raises(RegardError, match="pooled by cls, normalized, and a BertForQuestionAnswering has"):
        huggingface_bert.read(folder)
