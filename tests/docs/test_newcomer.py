"""benchmarks/newcomer.py finds its commands in the README."""

from pathlib import Path

import newcomer

ROOT = Path(__file__).parents[2]


def test_the_readme_says_how_to_install_train_and_translate() -> None:
    install, train, translate = newcomer.commands((ROOT / "README.md").read_text("utf-8"))
    assert install.startswith("pip install -c constraints.txt ")
    assert {"data.source=mine.de", "data.target=mine.en"} <= set(train.split())
    assert "train.minutes=" in train
    assert translate.split()[-3:] == ["input.de", "-o", "output.en"]
