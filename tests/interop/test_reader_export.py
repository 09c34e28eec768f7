"""BERT with every head, GPT that labels and ViT for Hugging Face and ONNX: the same answers there, and back."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import regard
from regard import tokenization
from regard.config.models import BertConfig, EmbedConfig, GptConfig, TokenReductionConfig, VitConfig
from regard.errors import RegardError
from regard.nn.build import build_text_model, build_vit
from regard.tasks.classification.config import ClassificationRecipe
from regard.tasks.encoder.config import EncoderRecipe
from regard.tasks.encoder.run_folder import text_spec_of, write_labels, write_text_run
from regard.tasks.export import export
from regard.tasks.image_classification.config import ImageClassificationRecipe
from regard.tasks.import_run import import_run
from regard.tasks.masked_lm.config import MaskedLmRecipe
from regard.tasks.question_answering.config import QuestionAnsweringRecipe
from regard.tasks.run_folder import RunFolder
from regard.tasks.tagging.config import TaggingRecipe

TEXTS = ["a dog sleeps", "two women walk in the park", "the dog walks", "a woman sleeps in the park"]
BERT = BertConfig(layers=2, d_model=16, heads=2, d_ff=24, max_length=24)
GPT = GptConfig(layers=2, d_model=16, heads=2, d_ff=32, max_length=24)
LABELS = {"classification": ("bad", "good", "so-so"), "tagging": ("O", "B-PER", "I-PER")}
RECIPES = {
    "classification": ClassificationRecipe("classification", model=BERT),
    "tagging": TaggingRecipe("tagging", model=BERT),
    "question-answering": QuestionAnsweringRecipe("question-answering", model=BERT),
    "masked-lm": MaskedLmRecipe("masked-lm", model=BERT),
    "encoder": EncoderRecipe("encoder", BERT, EmbedConfig(normalize=True, max_length=20)),
}


def spread_out(model: torch.nn.Module) -> torch.nn.Module:
    """Weights by chance, also where they begin with zeros or ones."""
    with torch.no_grad():
        for each in model.parameters():
            each.add_(torch.randn_like(each) * 0.2)
    return model


@pytest.fixture
def source(tmp_path: Path) -> Path:
    lines = [*TEXTS, *(f"{one}\t{other}" for one, other in pairwise(TEXTS))]
    (tmp_path / "texts.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return tmp_path / "texts.txt"


def bert_run(folder: Path, task: str, layers: int = 2) -> Path:
    torch.manual_seed(1)
    tokenizer, labels = tokenization.train("bert", TEXTS, size=80, min_count=1), LABELS.get(task, ())
    recipe = replace(RECIPES[task], model=replace(BERT, layers=layers))
    made = build_text_model(
        recipe.model, text_spec_of(recipe).head, tokenizer.size, tokenizer.padding, len(labels)
    )
    write_text_run(folder, recipe, spread_out(made), tokenizer, labels, "made by hand")
    return folder


def gpt_run(folder: Path) -> Path:
    torch.manual_seed(1)
    tokenizer = tokenization.GptTaskTokenizer(tokenization.train("gpt", TEXTS, size=280))
    made = spread_out(build_text_model(GPT, "classes", tokenizer.size, tokenizer.padding, 2))
    recipe = ClassificationRecipe("classification", model=GPT)
    write_text_run(folder, recipe, made, tokenizer, ("bad", "good"), "made by hand")
    return folder


def vit_run(folder: Path, **changed: object) -> Path:
    torch.manual_seed(1)
    sizes = {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 24, "patch": 4, "height": 12, "width": 12}
    config = VitConfig(**{**sizes, "channels": 1, "mean": (0.3,), "std": (0.4,), **changed})
    run = RunFolder.create(folder)
    write_labels(run, ("cat", "cow", "dog"))
    run.write_weights(spread_out(build_vit(config, 3)))
    run.write_recipe(ImageClassificationRecipe("image-classification", model=config))
    run.write_config(ImageClassificationRecipe("image-classification", model=config))
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    sampling = np.random.default_rng(0)
    for number, label in enumerate(("cat", "cow", "dog") * 2):
        place = tmp_path / "pictures" / label / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sampling.integers(0, 256, (12, 12)).astype(np.uint8)).save(place)
    return tmp_path / "pictures"


@pytest.mark.parametrize("task", RECIPES)
def test_bert_goes_to_hugging_face_and_back(task: str, tmp_path: Path, source: Path) -> None:
    run = bert_run(tmp_path / "run", task)
    made = export(run, "huggingface", tmp_path / "out", source=source)
    assert made.check.difference < 1e-4
    assert set(made.check.same.values()) <= {made.check.sentences}
    assert f"on {made.check.sentences} texts" in (tmp_path / "out" / "README.md").read_text()
    back = import_run(tmp_path / "out", tmp_path / "again")
    assert (back.task, back.labels, back.new_weights) == (task, LABELS.get(task, ()), ())
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("run", "again")]
    assert {name: each.tolist() for name, each in weights[0].items()} == {
        name: each.tolist() for name, each in weights[1].items()
    }
    ours, again = (regard.load(tmp_path / name) for name in ("run", "again"))
    assert again.tokenizer.encode(TEXTS[1]) == ours.tokenizer.encode(TEXTS[1])
    assert np.array_equal(ours.embed(TEXTS), again.embed(TEXTS))


def test_their_pipelines_work_on_the_folders(tmp_path: Path, source: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    for task in ("classification", "tagging", "question-answering", "masked-lm"):
        export(bert_run(tmp_path / f"run-{task}", task), "huggingface", tmp_path / task, source=source)
    ours = regard.load(tmp_path / "run-classification").classify(TEXTS)
    label = transformers.pipeline("text-classification", str(tmp_path / "classification"))
    for mine, theirs in zip(ours, label(TEXTS), strict=True):
        assert (mine.label, mine.probability) == (theirs["label"], pytest.approx(theirs["score"], abs=1e-5))
    tag = transformers.pipeline("token-classification", str(tmp_path / "tagging"), ignore_labels=[])
    assert {each["entity"] for each in tag(TEXTS[1])} <= set(LABELS["tagging"])
    fill = transformers.pipeline("fill-mask", str(tmp_path / "masked-lm"))
    assert len(fill("a [MASK] sleeps")) == 5
    asked = transformers.BertForQuestionAnswering.from_pretrained(tmp_path / "question-answering")
    assert asked.config.num_hidden_layers == 2


@pytest.mark.parametrize("task", RECIPES)
def test_bert_goes_to_onnx(task: str, tmp_path: Path, source: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    layers = 2 if task == "classification" else 1  # a graph's time grows with them; the heads stand on the last
    made = export(bert_run(tmp_path / "run", task, layers), "onnx", tmp_path / "out", source=source)
    assert made.check.engine.startswith("onnxruntime")
    assert made.check.difference < 1e-4
    assert set(made.check.same.values()) <= {made.check.sentences}
    assert (tmp_path / "out" / "tokenizer.json").exists()


def test_a_gpt_that_labels_goes_to_onnx_only(tmp_path: Path, source: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    made = export(gpt_run(tmp_path / "run"), "onnx", tmp_path / "out", source=source)
    assert made.check.same == {"labels": made.check.sentences}
    assert made.check.difference < 1e-4
    assert json.loads((tmp_path / "out" / "labels.json").read_text()) == ["bad", "good"]
    with pytest.raises(RegardError, match="it can be exported to onnx, not huggingface"):
        export(tmp_path / "run", "huggingface", tmp_path / "there", source=source)
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize(
    "changed",
    [{}, {"channels": 3, "mean": (0.4, 0.5, 0.6), "std": (0.2, 0.3, 0.25)}, {"position": "sinusoidal"}],
    ids=["grey", "coloured", "sinusoidal"],
)
def test_vit_goes_to_hugging_face_and_back(changed: dict, tmp_path: Path, pictures: Path) -> None:
    if changed.get("channels") == 3:
        for path in pictures.rglob("*.png"):
            Image.open(path).convert("RGB").save(path)
    run = vit_run(tmp_path / "run", **changed)
    made = export(run, "huggingface", tmp_path / "out", source=pictures)
    assert made.check.same == {"labels": 6}
    assert made.check.difference < 1e-4
    import_run(tmp_path / "out", tmp_path / "again")
    ours, again = (regard.load(tmp_path / name) for name in ("run", "again"))
    assert again.labels == ours.labels
    assert (again.recipe.model.channels, again.recipe.model.mean) == (
        ours.recipe.model.channels,
        ours.recipe.model.mean,
    )
    mine, theirs = (dict(each.model.named_parameters()) for each in (ours, again))
    for name, each in mine.items():
        assert torch.allclose(each, theirs[name], atol=1e-6), name


def test_their_image_pipeline_labels_as_we_do(tmp_path: Path, pictures: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    export(vit_run(tmp_path / "run"), "huggingface", tmp_path / "out", source=pictures)
    paths = sorted(str(each) for each in pictures.rglob("*.png"))
    label = transformers.pipeline("image-classification", str(tmp_path / "out"))
    for mine, theirs in zip(regard.load(tmp_path / "run").classify(paths), label(paths), strict=True):
        assert (mine.label, mine.probability) == (
            theirs[0]["label"],
            pytest.approx(theirs[0]["score"], abs=1e-4),
        )


def test_vit_goes_to_onnx(tmp_path: Path, pictures: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    for name, changed in {"class": {}, "mean": {"pooling": "mean", "layers": 1}}.items():
        run = vit_run(tmp_path / f"run-{name}", **changed)
        made = export(run, "onnx", tmp_path / name, source=pictures)
        assert (made.check.same, made.check.difference < 1e-4) == ({"labels": 6}, True)


def test_what_cannot_go_there_is_told(tmp_path: Path, source: Path, pictures: Path) -> None:
    with pytest.raises(RegardError, match="has class token pooling, and this one mean pooling"):
        export(vit_run(tmp_path / "mean", pooling="mean"), "huggingface", tmp_path / "out", source=pictures)
    with pytest.raises(RegardError, match="it can be exported to onnx or huggingface, not ctranslate2"):
        export(tmp_path / "mean", "ctranslate2", tmp_path / "out", source=pictures)
    run = bert_run(tmp_path / "run", "classification")
    with pytest.raises(RegardError, match="no texts to check the export with; give some with --source FILE"):
        export(run, "onnx", tmp_path / "out")
    folder = RunFolder.open(run)
    recipe = ClassificationRecipe("classification", model=BERT, reduce=TokenReductionConfig(merge=(0.2,)))
    folder.write_config(recipe)
    with pytest.raises(RegardError, match="merges tokens, which no other tool does"):
        export(run, "onnx", tmp_path / "out", source=source)
    assert not (tmp_path / "out").exists()
