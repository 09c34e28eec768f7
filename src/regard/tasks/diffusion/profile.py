"""Time profile of image generation: attention and convolutions by resolution, and the speed-up by merging."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from torch import nn

from regard.decoding.diffusion import DiffusionConfig
from regard.tasks.diffusion.model import ImageGenerator
from regard.tasks.timing import speedup, timed_rounds

TEXT_SHARE = 0.83
"""Share of the time in attention that the text names for a model that paints at full size."""

PartKey = tuple[str, int]
"""Kind of a part, and the side of its resolution in pixels."""


@dataclass(frozen=True)
class PartTime:
    """Time spent in a part of the model."""

    name: str
    side: int
    """Side of the resolution in pixels; 0 for the rest."""
    seconds: float
    share: float


@dataclass(frozen=True)
class MergeSpeed:
    """Speed with a share of the pixels merged."""

    merge: float
    pictures_per_second: float
    ratio: float
    """Median over the rounds of this speed / the speed without merging."""
    attention: float
    """Share of the time in attention."""


@dataclass(frozen=True)
class GenerationProfile:
    """The result of `regard bench paint`."""

    run: str
    pictures: int
    steps: int
    guidance: float
    parts: list[PartTime]
    speeds: list[MergeSpeed]
    text_share: float = TEXT_SHARE

    @property
    def attention(self) -> float:
        """Share of the time in attention at all resolutions, without merging."""
        return attention_share(self.parts)

    def as_text(self) -> str:
        lines = [f"{self.run}: {self.pictures} images, {self.steps} steps, guidance {self.guidance:g}"]
        lines += [
            f"{part.name:16} {f'at {part.side} x {part.side}' if part.side else '':12} "
            f"{part.seconds:8.3f} s {part.share:7.1%}"
            for part in self.parts
        ]
        lines.append(f"attention in all {self.attention:31.1%}   (the text, full size: {self.text_share:.0%})")
        lines += [
            f"merged {speed.merge:4.0%}: {speed.pictures_per_second:8.2f} images per second, "
            f"{speed.ratio:.2f} times, {speed.attention:.1%} in attention"
            for speed in self.speeds
        ]
        return "\n".join(lines)


def profile(
    loaded: ImageGenerator,
    pictures: int = 16,
    steps: int = 10,
    rounds: int = 5,
    merges: tuple[float, ...] = (0.5,),
) -> GenerationProfile:
    """Generate the same images with and without merging in interleaved rounds; medians over the rounds.

    Args:
        loaded: The model.
        pictures: Images per round.
        steps: Denoising steps.
        rounds: Rounds.
        merges: Shares of the pixels to merge, in addition to none.
    """
    prompts = [loaded.words[number % len(loaded.words)] for number in range(pictures)]
    options = {merge: loaded.options(steps=steps, merge=merge) for merge in (0.0, *merges)}
    workloads = [partial(loaded.paint, prompts, options=settings) for settings in options.values()]
    times = dict(zip(options, timed_rounds(workloads, rounds), strict=True))
    parts = {merge: part_times(loaded, prompts, settings) for merge, settings in options.items()}
    speeds = [
        MergeSpeed(
            merge,
            pictures / statistics.median(seconds),
            speedup(times[0.0], seconds),
            attention_share(parts[merge]),
        )
        for merge, seconds in times.items()
    ]
    return GenerationProfile(
        str(loaded.folder.path), pictures, steps, options[0.0].guidance, parts[0.0], speeds
    )


def attention_share(parts: list[PartTime]) -> float:
    return sum(part.share for part in parts if part.name.endswith("attention"))


def part_times(loaded: ImageGenerator, prompts: list[str], options: DiffusionConfig) -> list[PartTime]:
    """The time of each part while the prompts are generated: by resolution, slowest first, then the rest."""
    with timed(named_parts(loaded)) as times:
        total = loaded.paint(prompts, options=options).seconds
    parts = [PartTime(name, side, seconds, seconds / total) for (name, side), seconds in times.items()]
    rest = total - sum(times.values())
    return [
        *sorted(parts, key=lambda part: (-part.side, -part.seconds)),
        PartTime("all else", 0, rest, rest / total),
    ]


def named_parts(loaded: ImageGenerator) -> Iterator[tuple[PartKey, nn.Module]]:
    """The modules of the model by kind and resolution."""
    for stage in loaded.model.stages():
        yield ("convolutions", stage.side), stage.block
        if stage.attention_block is not None:
            yield ("self-attention", stage.side), stage.attention_block.self_attention
            yield ("cross-attention", stage.side), stage.attention_block.cross_attention
            yield ("feed-forward", stage.side), stage.attention_block.feed_forward


@contextmanager
def timed(parts: Iterator[tuple[PartKey, nn.Module]]) -> Iterator[dict[PartKey, float]]:
    """Seconds spent in modules during the block, summed by key."""
    times: dict[PartKey, float] = {}
    starts: list[float] = []

    def start(*_: object) -> None:
        starts.append(time.perf_counter())

    def stop(key: PartKey) -> Callable[..., None]:
        def add(*_: object) -> None:
            times[key] = times.get(key, 0.0) + time.perf_counter() - starts.pop()

        return add

    hooks = []
    for key, module in parts:
        hooks += [module.register_forward_pre_hook(start), module.register_forward_hook(stop(key))]
    try:
        yield times
    finally:
        for hook in hooks:
            hook.remove()
