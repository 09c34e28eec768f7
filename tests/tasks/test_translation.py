"""Translation from two files to a run folder and back, on a language small enough to learn in seconds."""

import json
import shutil
from pathlib import Path

import pytest
from support.small_translation import train
from support.without_figures import without_figures

import regard
from regard.decoding import BeamSearchConfig, SamplingConfig
from regard.tasks.metrics_log import NullListener
from regard.tasks.translation.model import Translator


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory):
    return train(corpus, tmp_path_factory.mktemp("runs") / "numbers")


@pytest.fixture(scope="module")
def model(run) -> Translator:
    return regard.load(run.folder)


def test_it_learns_to_translate(run, model: Translator) -> None:
    assert run.quality.bleu > 95
    assert model.translate(["drei vier eins.", "acht."]) == ["three four one.", "eight."]


def test_the_run_folder_is_complete(run) -> None:
    names = {path.name for path in run.folder.iterdir()}
    assert names == {
        "README.md", "checkpoints", "config.json", "curves.png", "curves.svg", "metrics.jsonl", "model.safetensors",
        "recipe.toml", "tokenizer.json",
    }  # fmt: skip
    card = (run.folder / "README.md").read_text("utf-8")
    assert run.quality.signature in card
    assert f"{run.quality.bleu:.2f}" in card
    rows = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["kind"] == "train"] == [50, 100, 150, 200, 250, 300]
    assert [row["step"] for row in rows if row["kind"] == "valid"] == [100, 200, 300]
    assert {"loss", "lr", "tokens_per_second", "minutes"} <= rows[0].keys()


@pytest.mark.parametrize(
    ("source", "target", "settings", "title"),
    [
        ("n.de", "n.en", [], "de to en"),
        ("mine.txt", "theirs.txt", [], "source to target"),
        ("mine.txt", "theirs.txt", ["data.source_language=cs", "data.target_language=fr"], "cs to fr"),
        ("mine.txt", "theirs.txt", ["data.target_language=fr"], "source to fr"),
    ],
)
def test_the_card_names_the_languages_of_the_files(
    corpus: Path, tmp_path: Path, source: str, target: str, settings: list[str], title: str
) -> None:
    shutil.copy(corpus / "n.de", tmp_path / source)
    shutil.copy(corpus / "n.en", tmp_path / target)
    files = [f"data.source={source}", f"data.target={target}", "train.steps=1", "train.validate_every=1"]
    with without_figures():
        train(tmp_path, tmp_path / "run", *files, *settings)
    card = (tmp_path / "run" / "README.md").read_text("utf-8")
    assert card.startswith(f"# Translation from {title}\n")


def test_it_opens_elsewhere_without_the_training_data(run, tmp_path: Path, model: Translator) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(run.folder, moved)
    assert regard.load(moved).translate(["zwei drei."]) == model.translate(["zwei drei."])


def test_every_line_has_one_translation_in_order(model: Translator) -> None:
    texts = ["eins.", "", "zwei drei.", "   ", "vier."]
    streamed = [line.text for window in model.pipeline.stream(iter(texts), window=2) for line in window]
    assert streamed == ["one.", "", "two three.", "", "four."]


def test_sizes_out_of_range_are_refused(model: Translator) -> None:
    for sizes in ({"beam": 0}, {"beam": 257}, {"batch_size": 0}, {"batch_size": 65_537}):
        [(name, size)] = sizes.items()
        with pytest.raises(
            regard.RegardError, match=f"^{name}: {size} is out of range; allowed is a whole number from 1 to"
        ):
            model.translate(["acht."], **sizes)


@pytest.mark.parametrize("beam", [1, 5])
def test_text_and_scores_do_not_depend_on_the_batch(model: Translator, corpus: Path, beam: int) -> None:
    texts = (corpus / "n.de").read_text("utf-8").splitlines()[:150]
    results = [
        model.pipeline.translate(texts, BeamSearchConfig(beam=beam, nbest=beam), batch_size=size)
        for size in (1, 7, 64)
    ]
    assert results[0] == results[1] == results[2]


def test_samples_do_not_depend_on_batches_or_windows(model: Translator, corpus: Path) -> None:
    texts = (corpus / "n.de").read_text("utf-8").splitlines()[:40]
    samples = [
        [
            line.text
            for lines in model.pipeline.stream(
                texts, sampling=SamplingConfig(7, temperature=3), window=window, batch_size=size
            )
            for line in lines
        ]
        for window, size in ((40, 64), (7, 2), (1, 1))
    ]
    assert samples[0] == samples[1] == samples[2]
    assert samples[0] != [
        line.text
        for lines in model.pipeline.stream(texts, sampling=SamplingConfig(8, temperature=3))
        for line in lines
    ]


def test_a_long_text_is_reported_and_split_cut_or_refused(model: Translator) -> None:
    text = "eins zwei drei vier fünf. " * 60
    with pytest.warns(UserWarning, match="line 2 has 361 tokens, the model allows 256: translated in parts"):
        _, split = model.translate(["acht.", text], beam=1)
    with pytest.warns(UserWarning, match="the rest is left out"):
        [cut] = model.translate([text], beam=1, long="cut")
    assert len(split) > len(cut)
    with pytest.raises(regard.RegardError, match="line 1 has 361 tokens, the model allows 256"):
        model.translate([text], long="refuse")


def test_prefixes_are_kept(model: Translator) -> None:
    translations = model.pipeline.translate(["drei vier.", "eins."], prefixes=["seven", ""])
    assert translations[0].text.startswith("seven")
    assert translations[1].text == "one."


def test_attention_names_layers_and_sums_to_one(model: Translator) -> None:
    maps = model.attention("drei vier.")
    assert list(maps.layers) == ["encoder.0.self", "decoder.0.self", "decoder.0.cross"]
    assert maps.source[:2] == ["drei", "vier"]
    assert maps.target[:2] == ["three", "four"]
    cross = maps.layers["decoder.0.cross"]
    assert cross.shape == (2, len(maps.target), len(maps.source))
    assert cross.weights.sum(-1) == pytest.approx(1.0, abs=1e-4)
    assert maps.alignment().shape == (len(maps.target), len(maps.source))


def test_evaluation_equals_the_scores_of_training(model: Translator, run) -> None:
    evaluation = model.evaluate(model.test_pairs())
    assert evaluation.quality == run.quality
    assert evaluation.loss == pytest.approx(run.loss, rel=1e-4)
    assert sum(row["sentences"] for row in evaluation.by_length) == evaluation.quality.sentences


def test_the_same_seed_gives_the_same_file(corpus: Path, tmp_path: Path) -> None:
    short = ["train.steps=20", "train.validate_every=10", "model.dropout=0.1"]
    first, second = (train(corpus, tmp_path / name, *short) for name in "ab")
    assert (first.folder / "model.safetensors").read_bytes() == (
        second.folder / "model.safetensors"
    ).read_bytes()


def test_a_resumed_run_equals_an_uninterrupted_one(corpus: Path, tmp_path: Path) -> None:
    settings = [
        "train.validate_every=10",
        "train.log_every=5",
        "model.dropout=0.1",
        "tokenizer.kind=bpe",
        "tokenizer.vocab_size=300",
        "tokenizer.dropout=0.1",
    ]
    whole = train(corpus, tmp_path / "whole", *settings, "train.steps=40")

    class Interrupt(Exception):
        pass

    class InterruptingListener(NullListener):
        def progress(self, line, done):
            if "step     25" in line:
                raise Interrupt

    with pytest.raises(Interrupt):
        train(corpus, tmp_path / "cut", *settings, "train.steps=40", listener=InterruptingListener())
    with pytest.raises(regard.RegardError, match=r"holds an unfinished run; use --resume"):
        train(corpus, tmp_path / "cut", *settings, "train.steps=40")
    cut = train(corpus, tmp_path / "cut", *settings, "train.steps=40", resume=True)
    assert (cut.folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()

    def steps(run):
        return [json.loads(line)["step"] for line in (run.folder / "metrics.jsonl").read_text().splitlines()]

    assert steps(cut) == steps(whole)
    with pytest.raises(regard.RegardError, match="its run is finished"):
        train(corpus, tmp_path / "cut", *settings, resume=True)
    with pytest.raises(regard.RegardError, match="the folder does not exist"):
        train(corpus, tmp_path / "nothing", *settings, resume=True)


def test_starting_from_a_run_keeps_its_weights_and_vocabulary(corpus: Path, tmp_path: Path, run) -> None:
    tuned = train(
        corpus,
        tmp_path / "tuned",
        f"model.start={run.folder}",
        "train.steps=1",
        "train.lr=1e-9",
        "train.averaging=none",
    )
    assert tuned.quality.bleu == pytest.approx(run.quality.bleu, abs=0.5)
    assert (tuned.folder / "tokenizer.json").read_bytes() == (run.folder / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "space"])
def test_every_kind_of_vocabulary_trains(corpus: Path, tmp_path: Path, kind: str) -> None:
    separate = (
        ["tokenizer.joint=false", "model.tie_embeddings=output"] if kind in ("wordpiece", "space") else []
    )
    made = train(
        corpus,
        tmp_path / kind,
        f"tokenizer.kind={kind}",
        "tokenizer.vocab_size=300",
        "train.steps=5",
        "train.validate_every=5",
        *separate,
    )
    files = {"source.json", "target.json"} if separate else {"tokenizer.json"}
    assert files <= {path.name for path in made.folder.iterdir()}
    assert len(regard.load(made.folder).translate(["drei vier."])) == 1


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("tokenizer.joint=false", 'model.tie_embeddings: "all" needs one vocabulary for both languages'),
        ("model.heads=3", "model.heads: 3 heads do not divide d_model 32"),
        ("tokenizer.dropout=0.1", 'tokenizer.dropout: this is for kind = "bpe"'),
        ("model.start=nowhere", "there is no run folder nowhere"),
        ("data.target=other.en", "other.en"),
        ("train.schedule=noam", None),
    ],
)
def test_impossible_recipes_are_refused(
    corpus: Path, tmp_path: Path, assignment: str, message: str | None
) -> None:
    extra = ["train.warmup=0"] if message is None else []
    with pytest.raises(regard.RegardError) as caught:
        train(corpus, tmp_path / "run", assignment, *extra)
    assert (message or "train.warmup: the noam schedule") in str(caught.value)
