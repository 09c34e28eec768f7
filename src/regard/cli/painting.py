"""`regard paint`: prompts in, a grid of pictures out."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.tasks.diffusion.model import ImageGenerator

KINDS = (".png", ".svg")


def run(
    folder: Path, prompts: list[str], output: Path, count: int, seed: int, way: Mapping[str, Any], as_json: bool
) -> None:
    """Paint `count` pictures for each prompt, write them, and say where; `way` is what `options` takes."""
    if output.suffix not in KINDS:
        raise RegardError(f"{output}: pictures are written as {' or '.join(KINDS)}")
    loaded = ImageGenerator.load(folder)
    painted = loaded.paint(prompts, count, seed, loaded.options(**way))
    painted.save(output)
    pictures = len(prompts) * count
    if as_json:
        told = {"picture": str(output), "prompts": prompts, "pictures": pictures, "seconds": painted.seconds}
        print(json.dumps(told, ensure_ascii=False))
    else:
        print(f"{output}: {pictures} pictures in {painted.seconds:.1f} s")
