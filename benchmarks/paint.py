"""Image generation: the share of generated digits that a Vision Transformer recognises as prompted.

    python benchmarks/paint.py PAINT VIT [--each N] [--guidance G] [--steps N] [--sampler S] [--seed N]

PAINT and VIT are runs of `regard train paint` and `regard train vit` on MNIST. Each digit is prompted in
English and in German, N images each, without merging and with half of the pixels merged. Prints one JSON
object: the share of images recognised as prompted, in total and by digit, and images per second.
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
    parser.add_argument(
        "--each",
        dest="per_prompt",
        metavar="N",
        type=int,
        default=10,
        help="images per prompt, of which there are 20",
    )
    parser.add_argument("--guidance", type=float)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--sampler", choices=["ddim", "ddpm"])
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    generator, classifier = ImageGenerator.load(arguments.paint), ImageClassifier.load(arguments.vit)
    if not isinstance(classifier, ImageClassifier):
        parser.error(f"{arguments.vit} does not label images")
    settings = {"guidance": arguments.guidance, "steps": arguments.steps, "sampler": arguments.sampler}
    rows = [
        recognition_row(
            generator, classifier, arguments.per_prompt, arguments.seed, {**settings, "merge": merge}
        )
        for merge in MERGES
    ]
    print(json.dumps({"benchmark": "paint", "rows": rows}))


def recognition_row(
    generator: ImageGenerator, classifier: ImageClassifier, count: int, seed: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """The share of images in which the classifier recognises the prompted digit."""
    prompts = [
        (digit, prompt)
        for digit, (english, german) in NUMBERS.items()
        for prompt in (f"a {english}", f"eine {german}")
    ]
    options = generator.options(**settings)
    painted = generator.paint([prompt for _, prompt in prompts], count, seed, options)
    pixels = np.round(painted.pictures * 255).astype(np.uint8).reshape(-1, *painted.pictures.shape[2:])
    labels = [digit for digit, _ in prompts for _ in range(count)]
    measured = measure(classifier.model, IdxImages(Path("painted"), pixels, labels), classifier.labels)
    return {
        "merge": options.merge,
        "steps": options.steps,
        "guidance": options.guidance,
        "sampler": options.sampler,
        "pictures": len(labels),
        "recognised": measured.scores["accuracy"],
        "by_digit": {row["label"]: row["recall"] for row in measured.rows},
        "pictures_per_second": len(labels) / painted.seconds,
    }


if __name__ == "__main__":
    main()
