"""Small stand-in runs for runs that take minutes to train."""

import shutil
import subprocess
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from support import small_diffusion, small_images, small_text_tasks
from support.page_run import environment
from support.without_figures import WITHOUT_FIGURES

ROOT = Path(__file__).parents[2]

LITTLE = (
    "model.max_length=40 train.steps=25 train.batch_tokens=1024 train.warmup=10 train.lr=0.01 decode.beam=2"
)
WORDS = "tokenizer.kind=words tokenizer.min_count=1 tokenizer.joint=false model.tie_embeddings=output"
TRANSFORMER = "model.d_model=32 model.heads=4 model.d_ff=64 model.encoder_layers=2 model.decoder_layers=2"
READER = (
    "model.layers=2 model.d_model=32 model.heads=2 model.d_ff=64 model.max_length=64 tokenizer.vocab_size=120 tokenizer.min_count=1 "
    "train.lr=0.005 train.warmup=10 train.batch_tokens=256 train.epochs=1 train.averaging=none"
)
WRITER = "model.size=nano tokenizer.vocab_size=300 train.steps=3 train.batch_tokens=512"
STAND_INS = {
    "picturebook": f"translation {LITTLE} {WORDS} {TRANSFORMER}",
    "bahdanau": f"bahdanau data.corpus=files {LITTLE} tokenizer.vocab_size=400 model.embedding=32 model.hidden=32",
    "pretraining": f"pretraining data.train=text.txt data.valid=text-dev.txt data.max_length=32 {READER.replace('epochs=1', 'steps=20')}",
    "sentiment": f"sentiment data.train=train.tsv data.valid=dev.tsv {READER}",
    "ner": f"ner data.train=train.conll data.valid=dev.conll {READER}",
    "qa": f"qa data.train=train.json data.valid=dev.json data.max_length=48 data.longest_question=8 data.overlap=8 {READER}",
    "gpt": f"gpt data.train=text.txt {WRITER}",
    "ngram": "ngram data.train=text.txt tokenizer.vocab_size=300",
    "shapes": f"vit data.path=bars {' '.join(small_images.SMALL)} train.steps=5",
    "digits": f"paint data.path=toys {' '.join(small_diffusion.SMALL)} train.steps=3",
    "gpt-sentiment": f"gpt-sentiment data.train=train.tsv data.valid=dev.tsv {WRITER}",
}
"""Settings of each stand-in, which trains in a second or two."""


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache folder for all pages."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory, programs: Path, cache: Path) -> Callable[[str], Path]:
    """A small run by name, trained on first use."""
    from regard.data.catalog import pairs as picturebook_pairs

    folder = tmp_path_factory.mktemp("stand-ins")
    for write in (
        small_text_tasks.write_labelled,
        small_text_tasks.write_tagged,
        small_text_tasks.write_questions,
    ):
        write(folder)
    small_text_tasks.write_documents(folder)
    small_images.write_folders(folder / "bars")
    (folder / "toys").mkdir()
    small_diffusion.write_toys(folder / "toys", labels=10)
    pairs = list(islice(picturebook_pairs("picturebook", "train"), 400))
    for side, name in enumerate(("little.de", "little.en")):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")

    def made(name: str) -> Path:
        run = folder / "runs" / name
        if not run.exists():
            recipe, *keys = STAND_INS[name].split()
            if not any(
                key in STAND_INS[name] for key in ("data.train", "data.path")
            ):  # absolute, since a page evaluates in a folder of its own
                keys += [f"data.source={folder / 'little.de'}", f"data.target={folder / 'little.en'}"]
            command = ["regard", "train", recipe, *keys, "--out", str(run)]
            variables = environment(cache, programs)
            if name != "picturebook":  # a page lists the files of that one
                variables["QUICK_FIRST"] = WITHOUT_FIGURES
            done = subprocess.run(
                [shutil.which("regard", path=variables["PATH"]) or "", *command[1:]],
                cwd=folder, env=variables, capture_output=True, text=True,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
        return run

    return made


@pytest.fixture(scope="session")
def real_run(tmp_path_factory: pytest.TempPathFactory, programs: Path, cache: Path) -> Callable[[str], Path]:
    """A run trained in full, as in the quick start."""
    folder = tmp_path_factory.mktemp("real")

    def made(name: str) -> Path:
        run = folder / "runs" / name
        if not run.exists():
            done = subprocess.run(
                ["regard", "train", name, "--out", str(run)], cwd=folder, env=environment(cache, programs)
            )
            assert done.returncode == 0
        return run

    return made
