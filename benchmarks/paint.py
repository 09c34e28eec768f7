"""What painting must show: digits that a Vision Transformer recognises as those that were asked for.

    python benchmarks/paint.py PAINT VIT [--each N] [--guidance G] [--steps N] [--sampler S] [--seed N]

PAINT and VIT are runs of `regard train paint` and `regard train vit` on MNIST. Each digit is asked for in
English and in German, N pictures each, without merging and with half of the pixels merged. Prints one JSON
object: the share of pictures recognised as asked, by digit too, and pictures a second.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.images import IdxImages
from regard.data.prompted_images import NUMBERS
from regard.tasks.diffusion.model import ImageGenerator
from regard.tasks.image_classification.model import ImageClassifier
from regard.tasks.image_classification.task import measure

MERGES = (0.0, 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paint", type=Path)
    parser.add_argument("vit", type=Path)
    parser.add_argument("--each", type=int, default=10, help="pictures for each of the 20 prompts")
    parser.add_argument("--guidance", type=float)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--sampler", choices=["ddim", "ddpm"])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    painter, judge = ImageGenerator.load(given.paint), ImageClassifier.load(given.vit)
    if not isinstance(judge, ImageClassifier):
        parser.error(f"{given.vit} does not label images")
    way = {"guidance": given.guidance, "steps": given.steps, "sampler": given.sampler}
    rows = [recognised(painter, judge, given.each, given.seed, {**way, "merge": merge}) for merge in MERGES]
    print(json.dumps({"benchmark": "paint", "rows": rows}))


def recognised(
    painter: ImageGenerator, judge: ImageClassifier, each: int, seed: int, way: dict[str, Any]
) -> dict[str, Any]:
    """The share of the pictures in which the judge sees the digit that was asked for."""
    asked = [
        (digit, prompt)
        for digit, (english, german) in NUMBERS.items()
        for prompt in (f"a {english}", f"eine {german}")
    ]
    options = painter.options(**way)
    painted = painter.paint([prompt for _, prompt in asked], each, seed, options)
    pixels = np.round(painted.pictures * 255).astype(np.uint8).reshape(-1, *painted.pictures.shape[2:])
    labels = [digit for digit, _ in asked for _ in range(each)]
    found = measure(judge.model, IdxImages(Path("painted"), pixels, labels), judge.labels)
    return {
        "merge": options.merge,
        "steps": options.steps,
        "guidance": options.guidance,
        "sampler": options.sampler,
        "pictures": len(labels),
        "recognised": found.scores["accuracy"],
        "by_digit": {row["label"]: row["recall"] for row in found.rows},
        "pictures_per_second": len(labels) / painted.seconds,
    }


if __name__ == "__main__":
    main()
