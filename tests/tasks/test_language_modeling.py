"""A GPT from text to labels: pre-trained, gone on with, resumed to the bit, fine-tuned; counts beside it."""

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
from regard.nn.build import build_reader
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
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language")
    (folder / "text.txt").write_text(TEXT)
    write_labelled(folder)
    write_pairs(folder)
    return folder


@pytest.fixture(scope="module")
def written(place: Path) -> Path:
    regard.train(
        "gpt",
        place / "gpt",
        overrides=parse_assignments([f"data.train={place / 'text.txt'}", *CHARACTERS, "train.steps=150"]),
    )
    return place / "gpt"


@pytest.fixture(scope="module")
def pieces(place: Path) -> Path:
    settings = [*CHARACTERS, "tokenizer.kind=bpe", "tokenizer.vocab_size=300", "train.steps=30"]
    regard.train(
        "gpt", place / "pieces", overrides=parse_assignments([f"data.train={place / 'text.txt'}", *settings])
    )
    return place / "pieces"


def test_it_learns_to_foretell_and_is_measured_in_nats_and_bits(written: Path) -> None:
    loaded = regard.load(written)
    scores = loaded.evaluate().scores
    assert scores["loss"] < 1.0  # evenly spread, a character would cost 3.2
    assert scores["bits_per_byte"] == pytest.approx(scores["loss"] / 0.6931, rel=1e-3)
    rows = [json.loads(line) for line in (written / "metrics.jsonl").read_text().splitlines()]
    assert {"loss", "bits_per_byte"} <= set(next(row for row in rows if row["kind"] == "valid"))
    said = loaded.generate(["the red ho"], GenerationConfig(tokens=20, beam=1))[0]
    assert said.startswith("use is")


def test_bits_a_byte_compare_tokens_of_every_kind(place: Path, tmp_path: Path) -> None:
    for kind in ("bytes", "bpe"):
        more = ["tokenizer.vocab_size=300"] if kind == "bpe" else []
        run = regard.train(
            "gpt",
            tmp_path / kind,
            overrides=parse_assignments(
                [
                    f"data.train={place / 'text.txt'}",
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


def test_a_resumed_training_is_the_one_never_interrupted(place: Path, tmp_path: Path) -> None:
    settings = [
        f"data.train={place / 'text.txt'}",
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
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_counts_have_the_same_report_and_the_same_interface(place: Path, tmp_path: Path) -> None:
    run = regard.train(
        "ngram",
        tmp_path / "counts",
        overrides=parse_assignments([f"data.train={place / 'text.txt'}", "tokenizer.kind=characters"]),
    )
    loaded = regard.load(tmp_path / "counts")
    assert loaded.evaluate().scores == run.measured.scores
    assert list(run.measured.scores) == ["loss", "bits_per_byte", "perplexity"]
    assert run.measured.scores["loss"] < 0.5
    assert loaded.generate(["the red ho"], GenerationConfig(tokens=8, beam=1)) == ["use is v"]
    with pytest.raises(RegardError, match="it looks at nothing"):
        loaded.attention("the")
    overrides = {"data.train": place / "text.txt", "train.device": "cuda", "train.steps": 1}
    with pytest.raises(RegardError, match=r"train\.device: tokens are counted on the CPU, not on cuda"):
        regard.train("ngram", tmp_path / "elsewhere", overrides=overrides)
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(RegardError, match="nothing to resume"):
        regard.train(
            "ngram",
            tmp_path / "counts",
            overrides=parse_assignments([f"data.train={place / 'text.txt'}"]),
            resume=True,
        )


def test_attention_of_what_it_writes(written: Path) -> None:
    maps = regard.load(written).attention("the red ")
    assert list(maps.layers) == ["decoder.0.self"]
    assert (len(maps.target), len(maps.source)) == (40, 48)
    assert maps.layers["decoder.0.self"].shape == (2, 48, 48)
    given = regard.load(written).attention("the red ", "house")
    assert given.target == list("house")


def labels(place: Path, out: Path, files: str, *more: str) -> object:
    data = [f"data.train={place / f'train{files}.tsv'}", f"data.valid={place / f'dev{files}.tsv'}"]
    settings = [
        "train.lr=0.005",
        "train.warmup=10",
        "train.batch_tokens=256",
        "train.epochs=4",
        "train.average=none",
    ]
    return regard.train(
        "inference" if files else "sentiment", out, overrides=parse_assignments([*data, *settings, *more])
    )


def test_labels_from_a_gpt_that_was_trained_before(place: Path, pieces: Path, tmp_path: Path) -> None:
    more = ["model.kind=gpt", f"model.start={pieces}", "model.dropout=0", "model.attention_dropout=0"]
    with pytest.raises(RegardError, match="holds a gpt, not a bert"):
        labels(place, tmp_path / "wrong", "", f"model.start={pieces}")
    run = labels(place, tmp_path / "labels", "", *more, "train.language_loss=0.5", "train.epochs=8")
    loaded = regard.load(tmp_path / "labels")
    assert loaded.evaluate(place / "dev.tsv").scores == run.measured.scores  # type: ignore[attr-defined]
    assert run.measured.scores["accuracy"] > 0.9  # type: ignore[attr-defined]
    assert [each.label for each in loaded.classify(["a red tree", "a black tree"])] == ["good", "bad"]
    assert loaded.embed(["a red tree"]).shape == (1, 32)
    maps = loaded.attention("a red tree")
    assert (maps.source[0], maps.source[-1]) == ("[START]", "[EXTRACT]")


def test_labels_of_pairs_with_tokens_of_its_own(place: Path, tmp_path: Path) -> None:
    small = [each for each in TINY if each.startswith("model.")]
    run = labels(
        place,
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


def test_the_language_loss_is_added_and_leaves_the_symbols_out() -> None:
    torch.manual_seed(0)
    recipe = load_recipe(
        "sentiment",
        parse_assignments(["model.kind=gpt", *(each for each in TINY if each.startswith("model."))]),
    )
    model = build_reader(recipe.model, "classes", 23, -1, 2)  # type: ignore[union-attr]
    ids = torch.tensor([[20, 1, 2, 3, 22], [20, 4, 22, -1, -1]])
    packed = Packed.from_padded(ids, ids != -1)
    nothing = torch.full((8,), -1)
    batch = TextBatch(packed, nothing + 1, torch.tensor([[0], [1]]), nothing, 8, 2, 2, (0, 1))
    label = ClassObjective(model)(batch)
    assert torch.allclose(GptClassObjective(model)(batch), label)
    scores = model.gpt(ids) @ model.gpt.token_embedding.weight.T
    own = torch.nn.functional.cross_entropy(
        torch.stack([scores[0, 0], scores[0, 1], scores[0, 2], scores[1, 0]]), torch.tensor([1, 2, 3, 4])
    )
    assert torch.allclose(GptClassObjective(model, language=0.5)(batch), label + 0.5 * own * 2, atol=1e-5)


@pytest.mark.parametrize(
    ("content", "more", "sentence"),
    [
        ("", [], "is empty; it must hold at least one line"),
        ("\n\n", [], "holds no text"),
        ("too short", [], "data.train has 9 tokens, fewer than a window of 64 and the one after it"),
    ],
)
def test_too_little_text_is_told(tmp_path: Path, content: str, more: list[str], sentence: str) -> None:
    (tmp_path / "text.txt").write_text(content)
    with pytest.raises(RegardError) as told:
        regard.train(
            "gpt",
            tmp_path / "run",
            overrides=parse_assignments([f"data.train={tmp_path / 'text.txt'}", *CHARACTERS, *more]),
        )
    assert sentence in str(told.value)


def test_characters_that_were_never_seen(written: Path, tmp_path: Path) -> None:
    loaded = regard.load(written)
    with pytest.raises(RegardError, match="'Ä', a character that the model never saw"):
        loaded.generate(["the Ä"])
    (tmp_path / "other.txt").write_text("the red Ääh\n")
    with pytest.warns(UserWarning, match="2 characters that the model never saw"):
        loaded.evaluate(tmp_path / "other.txt")
