"""Text tasks that train in seconds: colour words decide labels, are entities, or answer questions."""

import json
from pathlib import Path

import numpy as np

import regard
from regard.config.schema import parse_assignments

GOOD, BAD, REST = ("red", "green"), ("black", "grey"), ("a", "house", "tree", "is", "very", "old", "tall")
SMALL = [
    "model.layers=1", "model.d_model=32", "model.heads=2", "model.d_ff=64", "model.max_length=64", "model.dropout=0",
    "model.attention_dropout=0", "tokenizer.vocab_size=120", "tokenizer.min_count=1", "train.lr=0.005", "train.warmup=10",
    "train.batch_tokens=128", "train.log_every=20", "train.averaging=none",
]  # fmt: skip


EPOCHS = {
    "sentiment": ["data.train=train.tsv", "data.valid=dev.tsv", "train.epochs=6"],
    "inference": ["data.train=train-pairs.tsv", "data.valid=dev-pairs.tsv", "train.steps=10"],
    "ner": ["data.train=train.conll", "data.valid=dev.conll", "train.epochs=25"],
    "qa": [
        "data.train=train.json", "data.valid=dev.json", "train.epochs=8",
        "data.max_length=40", "data.overlap=8", "data.longest_question=8", "data.longest_answer=3",
    ],
}  # fmt: skip
"""Data and budget by recipe."""


def train_text_tasks(folder: Path) -> dict[str, Path]:
    """Trains a model for each recipe; returns the run folders by recipe."""
    files = folder / "files"
    files.mkdir()
    write_labelled(files)
    write_pairs(files)
    write_tagged(files)
    write_questions(files)
    for recipe, own in EPOCHS.items():
        overrides = parse_assignments([f"data.path={files}", *SMALL, "train.patience=0", *own])
        regard.train(recipe, folder / recipe, overrides=overrides)
    return {recipe: folder / recipe for recipe in EPOCHS}


def filler(generator: np.random.Generator, words: int) -> list[str]:
    return [REST[number] for number in generator.integers(0, len(REST), words)]


def labelled(count: int, seed: int) -> list[tuple[str, str]]:
    """Texts with one colour word, which decides the label."""
    generator = np.random.default_rng(seed)
    examples = []
    for number in range(count):
        words = filler(generator, int(generator.integers(3, 9)))
        colour = (GOOD if number % 2 else BAD)[int(generator.integers(2))]
        words.insert(int(generator.integers(len(words))), colour)
        examples.append((" ".join(words), "good" if number % 2 else "bad"))
    return examples


def write_labelled(folder: Path) -> None:
    for name, count, seed in (("train", 300, 0), ("dev", 60, 1)):
        rows = labelled(count, seed)
        (folder / f"{name}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))


def write_pairs(folder: Path) -> None:
    """The second text decides the label; the first one also has a colour, as a distractor."""
    for name, count, seed in (("train", 400, 0), ("dev", 60, 1)):
        second = labelled(count, seed)
        others = labelled(count, seed + 9)
        first = [others[index][0] for index in np.random.default_rng(seed).permutation(count)]
        lines = [f"{premise}\t{text}\t{label}\n" for premise, (text, label) in zip(first, second, strict=True)]
        (folder / f"{name}-pairs.tsv").write_text("premise\thypothesis\tlabel\n" + "".join(lines))


def write_tagged(folder: Path) -> None:
    """Colours are entities of two kinds; an `old` after one belongs to it."""
    for name, count, seed in (("train", 200, 0), ("dev", 40, 1)):
        lines = []
        for text, _ in labelled(count, seed):
            kind = ""
            for word in text.split():
                if word in GOOD + BAD:
                    kind = "good" if word in GOOD else "bad"
                    lines.append(f"{word}\tB-{kind}")
                else:
                    lines.append(f"{word}\t{f'I-{kind}' if kind and word == 'old' else 'O'}")
                    kind = ""
            lines.append("")
        (folder / f"{name}.conll").write_text("\n".join(lines))


def write_questions(folder: Path) -> None:
    """Questions for the colour of a paragraph; every eighth paragraph is longer than a window."""
    for name, count, seed in (("train", 160, 0), ("dev", 40, 1)):
        generator = np.random.default_rng(seed)
        articles = []
        for number, (text, _) in enumerate(labelled(count, seed)):
            context = " ".join([*filler(generator, 60 if number % 8 == 0 else 0), text])
            colour = next(word for word in text.split() if word in GOOD + BAD)
            answers = [{"text": colour, "answer_start": context.index(f"{colour}")}]
            question = {"id": f"{name}-{number}", "question": "which colour", "answers": answers}
            articles.append({"title": "", "paragraphs": [{"context": context, "qas": [question]}]})
        (folder / f"{name}.json").write_text(json.dumps({"version": "1.1", "data": articles}, indent=1))


def write_documents(folder: Path) -> None:
    """Twelve documents, each with its own five words: the next sentence is predictable from the current one."""
    generator = np.random.default_rng(0)
    for name, sentences in (("text.txt", 60), ("text-dev.txt", 100)):
        documents = [
            "".join(
                " ".join(f"w{number}x{word}" for word in generator.integers(0, 5, 4)) + "\n"
                for _ in range(sentences)
            )
            for number in range(12)
        ]
        (folder / name).write_text("\n".join(documents))
