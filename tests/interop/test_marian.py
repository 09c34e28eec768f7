"""To a Hugging Face folder and back, and what `transformers` makes of it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from support.small_models import SENTENCES, rewrite, rnn, transformer, write_run

from regard.config.models import RnnConfig, TransformerConfig
from regard.errors import RegardError
from regard.interop import huggingface_marian, transformers_models
from regard.tasks.export import export
from regard.tasks.import_run import import_translation
from regard.tasks.translation.exported_translator import write_export
from regard.tasks.translation.model import Translator

NORMS: dict[str, dict[str, Any]] = {"pre": {"norm": "pre"}, "post": {"norm": "post", "activation": "gelu"}}
needs_transformers = pytest.mark.skipif(
    not transformers_models.is_installed(), reason="transformers is not installed: pip install 'regard[bench]'"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that regard exported."""
    write_export(Translator.load(write_run(tmp_path / "run", transformer())), "huggingface", tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize("norm", NORMS)
def test_there_and_back_to_the_bit(tmp_path: Path, norm: str) -> None:
    run = write_run(tmp_path / "run", transformer(**NORMS[norm]))
    write_export(Translator.load(run), "huggingface", tmp_path / "out")
    import_translation(tmp_path / "out", tmp_path / "again")
    for name in ("model.safetensors", "tokenizer.json", "config.json", "recipe.toml"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes(), name


@needs_transformers
@pytest.mark.parametrize("norm", NORMS)
def test_transformers_says_the_same(tmp_path: Path, norm: str) -> None:
    made = export(write_run(tmp_path / "run", transformer(**NORMS[norm])), "huggingface", tmp_path / "out")
    assert made.check.engine.startswith("transformers ")
    assert made.check.same["greedy"] == made.check.sentences == len(SENTENCES)
    assert made.check.difference < 1e-4
    opened = transformers_models.TransformersTranslator(tmp_path / "out")
    kind = {"pre": "PegasusForConditionalGeneration", "post": "MarianMTModel"}[norm]
    assert type(opened.model).__name__ == kind


def test_without_transformers_regard_reads_its_export_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformers_models, "is_installed", lambda: False)
    check = export(write_run(tmp_path / "run", transformer()), "huggingface", tmp_path / "out").check
    assert check.engine == "regard, which read the folder back (transformers is not installed)"
    assert (*check.same.values(), check.difference) == (6, 6, 0.0)


def test_the_weights_name_their_framework(folder: Path) -> None:
    """transformers 4.46 reads metadata["format"], and does not open a file without metadata."""
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}


@needs_transformers
def test_what_transformers_saved_comes_back(folder: Path, tmp_path: Path) -> None:
    opened = transformers_models.TransformersTranslator(folder)
    opened.model.save_pretrained(tmp_path / "saved")
    opened.tokenizer.save_pretrained(tmp_path / "saved")
    import_translation(tmp_path / "saved", tmp_path / "again")
    first, again = (load_file(tmp_path / name / "model.safetensors") for name in ("run", "again"))
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)
    ours, theirs = (Translator.load(tmp_path / name).translate(SENTENCES) for name in ("run", "again"))
    assert ours == theirs


@needs_transformers
def test_their_tokenizer_cuts_text_as_ours_does(folder: Path, tmp_path: Path) -> None:
    tokenizer = Translator.load(tmp_path / "run").vocabulary.source
    opened = transformers_models.TransformersTranslator(folder)
    for text in [*SENTENCES, "  zwei   drei ", "<s> eins </s>", "xyz ▁ zwölf", ""]:
        assert opened.tokenizer(text)["input_ids"] == [*tokenizer.encode(text), tokenizer.end]
        assert opened.tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) == tokenizer.decode(
            tokenizer.encode(text)
        )


def test_the_stream_is_put_into_their_order(folder: Path, tmp_path: Path) -> None:
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("run", "out"))
    table = ours["source_embedding.weight"]
    assert torch.equal(theirs["model.shared.weight"], torch.cat((table[:, 0::2], table[:, 1::2]), dim=1))
    places = theirs["model.encoder.embed_positions.weight"]
    assert torch.equal(places[0], torch.tensor([0.0] * 8 + [1.0] * 8))


@pytest.mark.parametrize(
    ("model", "text", "sentence"),
    [
        (rnn(), {}, "has no such translation model"),
        (transformer(position="learned"), {}, r"model\.position = sinusoidal, and this model has learned"),
        (transformer(score="additive"), {}, r"model\.score = scaled-dot, and this model has additive"),
        (transformer(tie_embeddings="output"), {}, r"model\.tie_embeddings = all, and this model has output"),
        (transformer(), {"kind": "words"}, "no tokenizer of kind words"),
        (
            transformer(tie_embeddings="none"),
            {"joint": False},
            "one vocabulary for both languages, and this run has two",
        ),
    ],
    ids=["rnn", "learned", "score", "output", "words", "two"],
)
def test_what_they_do_not_have_is_refused(
    tmp_path: Path, model: TransformerConfig | RnnConfig, text: dict[str, Any], sentence: str
) -> None:
    run = write_run(tmp_path / "run", model, **text)
    with pytest.raises(RegardError, match=sentence):
        export(run, "huggingface", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_recipe_that_does_not_fit_its_config(folder: Path) -> None:
    rewrite(folder / "config.json", d_model=32)
    with pytest.raises(RegardError, match=r"config\.json: d_model is 32, and by its recipe it is 16"):
        huggingface_marian.read(folder)


def test_damaged_and_foreign_folders(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="is a run folder of regard; expected was a Hugging Face folder"):
        huggingface_marian.read(tmp_path / "run")
    with pytest.raises(RegardError, match="there is no folder"):
        huggingface_marian.read(tmp_path / "nowhere")
    weights = load_file(folder / "model.safetensors")
    save_file({name: each for name, each in weights.items() if "fc1" not in name}, folder / "model.safetensors")
    with pytest.raises(RegardError, match=r"fc1\.weight' is missing"):
        huggingface_marian.read(folder)
    (folder / "model.safetensors").write_bytes(b"12")
    with pytest.raises(RegardError, match="does not hold the weights of its config"):
        huggingface_marian.read(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(RegardError, match=r"has no model\.safetensors; expected were"):
        huggingface_marian.read(folder)
    (folder / "tokenizer.json").write_text("{}", "utf-8")
    with pytest.raises(RegardError, match="is not a tokenizer that regard can use"):
        huggingface_marian.read(folder)
    rewrite(folder / "config.json", regard='task = "kernel-regression"')
    with pytest.raises(
        RegardError, match="the recipe of a kernel-regression model, not of a translation model"
    ):
        huggingface_marian.read(folder)
    rewrite(folder / "config.json", regard="task = ")
    with pytest.raises(RegardError, match="its key 'regard' is damaged"):
        huggingface_marian.read(folder)
    rewrite(folder / "config.json", regard=None)
    with pytest.raises(RegardError, match="only pegasus models that regard exported can be imported"):
        huggingface_marian.read(folder)
    rewrite(folder / "config.json", model_type="t5")
    with pytest.raises(RegardError, match="its model_type is 't5'; 'marian' and 'pegasus' can be imported"):
        huggingface_marian.read(folder)
    (folder / "config.json").write_text(json.dumps(["model_type"]), "utf-8")
    with pytest.raises(RegardError, match="holds no JSON object"):
        huggingface_marian.read(folder)
