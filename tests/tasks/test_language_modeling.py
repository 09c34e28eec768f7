"""Language models: GPT pre-training, generation, resumption, fine-tuning; the n-gram baseline."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from support.small_text_tasks import write_labelled, write_pairs

import regard
from regard.config.schema import parse_assignments
from regard.data.examples import TextBatch
from regard.decoding.generator import GenerationConfig
from regard.errors import RegardError
from regard.nn import Packed
from regard.nn.build import build_text_model
from regard.tasks.registry import load_recipe
from regard.training.objectives import ClassObjective, GptClassObjective

COLOURS = ("red", "green", "black", "grey")
TEXT = "".join(
    f"the {COLOURS[number % 4]} house is very {'old' if number % 3 else 'tall'} . a {COLOURS[number % 4]} tree\n"
    for number in range(300)
)
TINY = [
    "model.layers=1", "model.d_model=32", "model.heads=2", "model.d_ff=64", "model.max_length=64", "model.dropout=0",
    "model.attention_dropout=0", "train.lr=0.005", "train.warmup=5", "train.log_every=20",
]  # fmt: skip
CHARACTERS = [
    *TINY,
    "tokenizer.kind=characters",
    "train.batch_tokens=256",
    "train.steps=60",
    "train.validate_every=30",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language")
    (folder / "text.txt").write_text(TEXT)
    write_labelled(folder)
    write_pairs(folder)
    return folder


@pytest.fixture(scope="module")
def character_run(folder: Path) -> Path:
    regard.train(
        "gpt",
        folder / "gpt",
        overrides=parse_assignments([f"data.train={folder / 'text.txt'}", *CHARACTERS, "train.steps=150"]),
    )
    return folder / "gpt"


@pytest.fixture(scope="module")
def subword_run(folder: Path) -> Path:
    settings = [*CHARACTERS, "tokenizer.kind=bpe", "tokenizer.vocab_size=300", "train.steps=30"]
    regard.train(
        "gpt", folder / "pieces", overrides=parse_assignments([f"data.train={folder / 'text.txt'}", *settings])
    )
    return folder / "pieces"


def test_a_gpt_learns_and_is_evaluated_in_nats_and_bits(character_run: Path) -> None:
    loaded = regard.load(character_run)
    scores = loaded.evaluate().scores
    assert scores["loss"] < 1.0  # a uniform distribution over the characters has 3.2
    assert scores["bits_per_byte"] == pytest.approx(scores["loss"] / 0.6931, rel=1e-3)
    rows = [json.loads(line) for line in (character_run / "metrics.jsonl").read_text().splitlines()]
    assert {"loss", "bits_per_byte"} <= set(next(row for row in rows if row["kind"] == "valid"))
    text = loaded.generate(["the red ho"], GenerationConfig(tokens=20, beam=1))[0]
    assert text.startswith("use is")


def test_bits_per_byte_are_comparable_across_tokenizers(folder: Path, tmp_path: Path) -> None:
    for kind in ("bytes", "bpe"):
        more = ["tokenizer.vocab_size=300"] if kind == "bpe" else []
        run = regard.train(
            "gpt",
            tmp_path / kind,
            overrides=parse_assignments(
                [
                    f"data.train={folder / 'text.txt'}",
                    *CHARACTERS,
                    f"tokenizer.kind={kind}",
                    *more,
                    "train.steps=20",
                ]
            ),
        )
        scores = run.measured.scores
        assert 0 < scores["bits_per_byte"] < 8
        assert (scores["bits_per_byte"] * 0.6931 < 0.9 * scores["loss"]) == (kind == "bpe")


def test_a_resumed_run_is_bit_identical_to_an_uninterrupted_one(folder: Path, tmp_path: Path) -> None:
    settings = [
        f"data.train={folder / 'text.txt'}",
        *CHARACTERS,
        "train.checkpoint_every=20",
        "train.validate_every=20",
    ]
    regard.train(
        "gpt",
        tmp_path / "whole",
        overrides=parse_assignments([*settings, "train.steps=40", "train.schedule=constant"]),
    )
    regard.train(
        "gpt",
        tmp_path / "parts",
        overrides=parse_assignments([*settings, "train.steps=20", "train.schedule=constant"]),
    )
    (tmp_path / "parts" / "config.json").unlink()
    regard.train(
        "gpt",
        tmp_path / "parts",
        overrides=parse_assignments([*settings, "train.steps=40", "train.schedule=constant"]),
        resume=True,
    )
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_an_ngram_model_has_the_same_scores_and_interface(folder: Path, tmp_path: Path) -> None:
    run = regard.train(
        "ngram",
        tmp_path / "counts",
        overrides=parse_assignments([f"data.train={folder / 'text.txt'}", "tokenizer.kind=characters"]),
    )
    loaded = regard.load(tmp_path / "counts")
    assert loaded.evaluate().scores == run.measured.scores
    assert list(run.measured.scores) == ["loss", "bits_per_byte", "perplexity"]
    assert run.measured.scores["loss"] < 0.5
    assert loaded.generate(["the red ho"], GenerationConfig(tokens=8, beam=1)) == ["use is v"]
    with pytest.raises(RegardError, match="which has no attention"):
        loaded.attention("the")
    overrides = {"data.train": folder / "text.txt", "train.device": "cuda", "train.steps": 1}
    with pytest.raises(RegardError, match=r"train\.device: n-grams are counted on the CPU, not on cuda"):
        regard.train("ngram", tmp_path / "elsewhere", overrides=overrides)
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(RegardError, match="nothing to resume"):
        regard.train(
            "ngram",
            tmp_path / "counts",
            overrides=parse_assignments([f"data.train={folder / 'text.txt'}"]),
            resume=True,
        )


def test_attention_maps_of_a_generated_and_a_given_continuation(character_run: Path) -> None:
    maps = regard.load(character_run).attention("the red ")
    assert list(maps.layers) == ["decoder.0.self"]
    assert (len(maps.target), len(maps.source)) == (40, 48)
    assert maps.layers["decoder.0.self"].shape == (2, 48, 48)
    with_target = regard.load(character_run).attention("the red ", "house")
    assert with_target.target == list("house")


def train_labels(folder: Path, out: Path, files: str, *more: str) -> object:
    data = [f"data.train={folder / f'train{files}.tsv'}", f"data.valid={folder / f'dev{files}.tsv'}"]
    settings = [
        "train.lr=0.005",
        "train.warmup=10",
        "train.batch_tokens=256",
        "train.epochs=4",
        "train.averaging=none",
    ]
    return regard.train(
        "inference" if files else "sentiment", out, overrides=parse_assignments([*data, *settings, *more])
    )


def test_a_pretrained_gpt_is_fine_tuned_on_labels(folder: Path, subword_run: Path, tmp_path: Path) -> None:
    more = ["model.kind=gpt", f"model.start={subword_run}", "model.dropout=0", "model.attention_dropout=0"]
    with pytest.raises(RegardError, match="holds a gpt, not a bert"):
        train_labels(folder, tmp_path / "wrong", "", f"model.start={subword_run}")
    run = train_labels(folder, tmp_path / "labels", "", *more, "train.language_loss=0.5", "train.epochs=8")
    loaded = regard.load(tmp_path / "labels")
    assert loaded.evaluate(folder / "dev.tsv").scores == run.measured.scores  # type: ignore[attr-defined]
    assert run.measured.scores["accuracy"] > 0.9  # type: ignore[attr-defined]
    assert [prediction.label for prediction in loaded.classify(["a red tree", "a black tree"])] == [
        "good",
        "bad",
    ]
    assert loaded.embed(["a red tree"]).shape == (1, 32)
    maps = loaded.attention("a red tree")
    assert (maps.source[0], maps.source[-1]) == ("[START]", "[EXTRACT]")


def test_a_gpt_learns_labels_of_pairs_with_its_own_tokenizer(folder: Path, tmp_path: Path) -> None:
    small = [setting for setting in TINY if setting.startswith("model.")]
    run = train_labels(
        folder,
        tmp_path / "pairs",
        "-pairs",
        "model.kind=gpt",
        *small,
        "model.max_length=64",
        "tokenizer.vocab_size=300",
        "train.epochs=8",
    )
    assert run.measured.scores["accuracy"] > 0.9  # type: ignore[attr-defined]
    assert regard.load(tmp_path / "pairs").classify([("a black tree", "a red tree")])[0].label == "good"


def test_the_language_loss_is_added_without_special_tokens() -> None:
    torch.manual_seed(0)
    recipe = load_recipe(
        "sentiment",
        parse_assignments(["model.kind=gpt", *(setting for setting in TINY if setting.startswith("model."))]),
    )
    model = build_text_model(recipe.model, "classes", 23, -1, 2)  # type: ignore[union-attr]
    ids = torch.tensor([[20, 1, 2, 3, 22], [20, 4, 22, -1, -1]])
    packed = Packed.from_padded(ids, ids != -1)
    ignored = torch.full((8,), -1)
    batch = TextBatch(packed, ignored + 1, torch.tensor([[0], [1]]), ignored, 8, 2, 2, (0, 1))
    label = ClassObjective(model)(batch)
    assert torch.allclose(GptClassObjective(model)(batch), label)
    scores = model.gpt(ids) @ model.gpt.token_embedding.weight.T
    own = torch.nn.functional.cross_entropy(
        torch.stack([scores[0, 0], scores[0, 1], scores[0, 2], scores[1, 0]]), torch.tensor([1, 2, 3, 4])
    )
    assert torch.allclose(GptClassObjective(model, language=0.5)(batch), label + 0.5 * own * 2, atol=1e-5)


@pytest.mark.parametrize(
    ("content", "more", "message"),
    [
        ("", [], "is empty; it must have at least one line"),
        ("\n\n", [], "holds no text"),
        (
            "too short",
            [],
            "data.train has 9 tokens; a window of model.max_length = 64 needs one more than its size",
        ),
    ],
)
def test_too_little_text_is_refused(tmp_path: Path, content: str, more: list[str], message: str) -> None:
    (tmp_path / "text.txt").write_text(content)
    with pytest.raises(RegardError) as error:
        regard.train(
            "gpt",
            tmp_path / "run",
            overrides=parse_assignments([f"data.train={tmp_path / 'text.txt'}", *CHARACTERS, *more]),
        )
    assert message in str(error.value)


def test_characters_outside_the_vocabulary(character_run: Path, tmp_path: Path) -> None:
    loaded = regard.load(character_run)
    with pytest.raises(RegardError, match="'Ä', a character that is not in the model's vocabulary"):
        loaded.generate(["the Ä"])
    (tmp_path / "other.txt").write_text("the red Ääh\n")
    with pytest.warns(UserWarning, match="2 characters that are not in the model's vocabulary"):
        loaded.evaluate(tmp_path / "other.txt")
