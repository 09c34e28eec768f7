"""Points for kernel regression: samples of a noisy curve, or two columns of a file."""

import math
from pathlib import Path

import torch
from torch import Tensor

from regard.config.data import CurveDataConfig
from regard.errors import RegardError


def curve(x: Tensor) -> Tensor:
    """2 sin(x) + x^0.8: the noiseless curve."""
    return 2 * torch.sin(x) + x**0.8


def load_points(data: CurveDataConfig, seed: int) -> tuple[Tensor, Tensor]:
    """x in ascending order and y, (points,) each."""
    if data.path is not None:
        return read_points(Path(data.path))
    rng = torch.Generator().manual_seed(seed)
    x, _ = torch.sort(data.low + (data.high - data.low) * torch.rand(data.samples, generator=rng))
    return x, curve(x) + data.noise * torch.randn(data.samples, generator=rng)


def read_points(path: Path) -> tuple[Tensor, Tensor]:
    """Read two numbers per line, separated by a comma, a tab or blanks; a header line is skipped."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except OSError as problem:
        raise RegardError(f"data.path: {path} cannot be read: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise RegardError(f"data.path: {path} is not UTF-8 text") from None
    points = []
    for number, line in enumerate(lines, start=1):
        cells = line.replace(",", " ").split()
        if not cells:
            continue
        try:
            x, y = map(float, cells)
        except ValueError:
            if number == 1:
                continue
            raise RegardError(f"{path}, line {number}: expected two numbers, not {line.strip()!r}") from None
        if not (math.isfinite(x) and math.isfinite(y)):
            raise RegardError(f"{path}, line {number}: {line.strip()!r} is not finite")
        points.append((x, y))
    if len(points) < 2:
        raise RegardError(f"{path} holds {len(points)} points; leaving one out needs at least 2")
    columns = torch.tensor(sorted(points)).unbind(1)
    return columns[0], columns[1]
