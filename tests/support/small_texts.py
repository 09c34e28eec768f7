"""Tasks small enough to learn in seconds: colours that decide a label, names between marks, answers after a word."""

import json
from pathlib import Path

import numpy as np

GOOD, BAD, REST = ("red", "green"), ("black", "grey"), ("a", "house", "tree", "is", "very", "old", "tall")
SMALL = [
    "model.layers=1", "model.d_model=32", "model.heads=2", "model.d_ff=64", "model.max_length=64", "model.dropout=0",
    "model.attention_dropout=0", "tokenizer.vocab_size=120", "tokenizer.min_count=1", "train.lr=0.005", "train.warmup=10",
    "train.batch_tokens=128", "train.log_every=20", "train.averaging=none",
]  # fmt: skip


def filled(chance: np.random.Generator, words: int) -> list[str]:
    return [REST[number] for number in chance.integers(0, len(REST), words)]


def labelled(count: int, seed: int) -> list[tuple[str, str]]:
    """Texts with one colour in them, which says the label."""
    chance = np.random.default_rng(seed)
    found = []
    for number in range(count):
        words = filled(chance, int(chance.integers(3, 9)))
        colour = (GOOD if number % 2 else BAD)[int(chance.integers(2))]
        words.insert(int(chance.integers(len(words))), colour)
        found.append((" ".join(words), "good" if number % 2 else "bad"))
    return found


def write_labelled(folder: Path) -> None:
    for name, count, seed in (("train", 300, 0), ("dev", 60, 1)):
        rows = labelled(count, seed)
        (folder / f"{name}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))


def write_pairs(folder: Path) -> None:
    """The second text decides; the first one has a colour too, and misleads."""
    for name, count, seed in (("train", 400, 0), ("dev", 60, 1)):
        second = labelled(count, seed)
        others = labelled(count, seed + 9)
        first = [others[place][0] for place in np.random.default_rng(seed).permutation(count)]
        lines = [f"{one}\t{other}\t{label}\n" for one, (other, label) in zip(first, second, strict=True)]
        (folder / f"{name}-pairs.tsv").write_text("premise\thypothesis\tlabel\n" + "".join(lines))


def write_tagged(folder: Path) -> None:
    """Colours are names of two kinds, and an `old` after one belongs to it."""
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
    """Which colour stands in a paragraph; some paragraphs are longer than a window."""
    for name, count, seed in (("train", 160, 0), ("dev", 40, 1)):
        chance = np.random.default_rng(seed)
        articles = []
        for number, (text, _) in enumerate(labelled(count, seed)):
            context = " ".join([*filled(chance, 60 if number % 8 == 0 else 0), text])
            colour = next(word for word in text.split() if word in GOOD + BAD)
            answers = [{"text": colour, "answer_start": context.index(f"{colour}")}]
            asked = {"id": f"{name}-{number}", "question": "which colour", "answers": answers}
            articles.append({"title": "", "paragraphs": [{"context": context, "qas": [asked]}]})
        (folder / f"{name}.json").write_text(json.dumps({"version": "1.1", "data": articles}, indent=1))


def write_documents(folder: Path) -> None:
    """A dozen documents, each with five words of its own: what follows can be told from what was said."""
    chance = np.random.default_rng(0)
    for name, sentences in (("text.txt", 60), ("text-dev.txt", 100)):
        documents = [
            "".join(
                " ".join(f"w{number}x{word}" for word in chance.integers(0, 5, 4)) + "\n"
                for _ in range(sentences)
            )
            for number in range(12)
        ]
        (folder / name).write_text("\n".join(documents))
