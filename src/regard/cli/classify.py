"""`regard classify`: a label with its probability for each text, pair of texts, or image."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.arguments import Files, JsonLines, Merge, Output, Run
from regard.cli.lines import (
    LINES_PER_BATCH,
    Line,
    checked_text,
    json_line,
    tab_separated_pair,
    write_results,
    write_texts,
)
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.tasks.classification.task import LabelPrediction
    from regard.tasks.image_classification.model import ImageClassifier


def classify(
    run: Run, files: Files = None, output: Output = None, merge: Merge = None, as_json: JsonLines = False
) -> None:
    """Classify texts line by line: label and probability; a pair of texts is tab-separated.

    A Vision Transformer classifies image files (PNG or JPEG).

    Examples:

    echo "a warm , funny film" | regard classify runs/sentiment

    regard classify runs/inference pairs.tsv --json -o labels.jsonl

    regard classify runs/vit one.png two.jpg
    """
    from regard.tasks import load
    from regard.tasks.classification.model import Classifier
    from regard.tasks.encoder.reduction import parse_merge_amounts
    from regard.tasks.image_classification.model import ImageClassifier

    loaded = load(run)
    if loaded.spec.reads == "image":
        image_classifier = ImageClassifier.of(loaded)
        if merge is not None:
            image_classifier.merge(parse_merge_amounts(merge))
        classify_images(image_classifier, files or [], output, as_json)
        return
    classifier = Classifier.of(loaded, "classifies texts or images")
    if merge is not None:
        classifier.merge(parse_merge_amounts(merge))

    def labels(lines: list[Line]) -> Iterator[str]:
        pairs = classifier.pairs if classifier.pairs is not None else "\t" in lines[0].text
        texts = [tab_separated_pair(line, "two texts") if pairs else checked_text(line) for line in lines]
        for text, label in zip(texts, classifier.classify(texts), strict=True):
            yield json_line({"text": text, **asdict(label)}) if as_json else label_line(label)

    write_results(labels, files or [], output, classifier.tokenizer)


def classify_images(
    classifier: "ImageClassifier", files: list[Path], output: Path | None, as_json: bool
) -> None:
    """One line per image file; with several files, it begins with the file's name."""
    if not files:
        raise RegardError(f"{classifier.folder.path} classifies images; give image files")

    def labels() -> Iterator[str]:
        for first in range(0, len(files), LINES_PER_BATCH):
            batch = files[first : first + LINES_PER_BATCH]
            for file, label in zip(batch, classifier.classify(batch), strict=True):
                name = f"{file}\t" if len(files) > 1 else ""
                yield json_line({"image": str(file), **asdict(label)}) if as_json else name + label_line(label)

    write_texts(labels(), output)


def label_line(label: "LabelPrediction") -> str:
    return f"{label.label}\t{label.probability:.4f}\n"
