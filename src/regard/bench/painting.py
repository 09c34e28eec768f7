"""Time profile of painting: attention at each resolution, convolutions; and the speed-up by merging pixels."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from torch import nn

from regard.bench.rounds import speedup, timed_rounds
from regard.decoding.diffusion import DiffusionConfig
from regard.tasks.diffusion.model import ImageGenerator

TEXT_SHARE = 0.83
"""Of the time in attention, as the text has it for a model that paints at full size."""


@dataclass(frozen=True)
class Part:
    """A part of the model, and its time."""

    name: str
    side: int
    """Of the resolution."""
    seconds: float
    share: float


@dataclass(frozen=True)
class Speed:
    """Pictures a second with a share of the pixels merged; `ratio`: over those without."""

    merge: float
    pictures_per_second: float
    ratio: float
    attention: float
    """Share of the time in attention."""


@dataclass(frozen=True)
class Profile:
    """Where the time of a painter goes."""

    run: str
    pictures: int
    steps: int
    guidance: float
    parts: list[Part]
    speeds: list[Speed]
    text_share: float = TEXT_SHARE

    @property
    def attention(self) -> float:
        """Share of the time in attention at all resolutions, nothing merged."""
        return sum(part.share for part in self.parts if part.name.endswith("attention"))

    def as_text(self) -> str:
        lines = [f"{self.run}: {self.pictures} pictures, {self.steps} steps, guidance {self.guidance:g}"]
        lines += [
            f"{part.name:16} {f'at {part.side} x {part.side}' if part.side else '':12} "
            f"{part.seconds:8.3f} s {part.share:7.1%}"
            for part in self.parts
        ]
        lines.append(f"attention in all {self.attention:31.1%}   (the text, full size: {self.text_share:.0%})")
        lines += [
            f"merged {speed.merge:4.0%}: {speed.pictures_per_second:8.2f} pictures a second, "
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
) -> Profile:
    """Paint the same pictures with and without merging in interleaved rounds; medians over the rounds."""
    prompts = [loaded.words[number % len(loaded.words)] for number in range(pictures)]
    options = {merge: loaded.options(steps=steps, merge=merge) for merge in (0.0, *merges)}
    paint = [partial(loaded.paint, prompts, options=each) for each in options.values()]
    times = dict(zip(options, timed_rounds(paint, rounds), strict=True))
    parts = {merge: parts_of(loaded, prompts, each) for merge, each in options.items()}
    speeds = [
        Speed(
            merge,
            pictures / statistics.median(seconds),
            speedup(times[0.0], seconds),
            attention_in(parts[merge]),
        )
        for merge, seconds in times.items()
    ]
    return Profile(str(loaded.folder.path), pictures, steps, options[0.0].guidance, parts[0.0], speeds)


def attention_in(parts: list[Part]) -> float:
    return sum(part.share for part in parts if part.name.endswith("attention"))


def parts_of(loaded: ImageGenerator, prompts: list[str], options: DiffusionConfig) -> list[Part]:
    """The time of each part while the prompts are painted, most first at each resolution; the rest is last."""
    with timed(named_parts(loaded)) as times:
        whole = loaded.paint(prompts, options=options).seconds
    found = [Part(*key, seconds, seconds / whole) for key, seconds in times.items()]
    rest = whole - sum(times.values())
    return [
        *sorted(found, key=lambda part: (-part.side, -part.seconds)),
        Part("all else", 0, rest, rest / whole),
    ]


def named_parts(loaded: ImageGenerator) -> Iterator[tuple[tuple[str, int], nn.Module]]:
    """What the model is made of, by kind and resolution."""
    for stage in loaded.model.stages():
        yield ("convolutions", stage.side), stage.block
        if stage.attention_block is not None:
            yield ("self-attention", stage.side), stage.attention_block.self_attention
            yield ("cross-attention", stage.side), stage.attention_block.cross_attention
            yield ("feed-forward", stage.side), stage.attention_block.feed_forward


@contextmanager
def timed(parts: Iterator[tuple[tuple[str, int], nn.Module]]) -> Iterator[dict[tuple[str, int], float]]:
    """Seconds spent in modules, added up by name, while the block lasts."""
    times: dict[tuple[str, int], float] = {}
    begun: list[float] = []

    def start(*_: object) -> None:
        begun.append(time.perf_counter())

    def stop(name: tuple[str, int]) -> Callable[..., None]:
        def add(*_: object) -> None:
            times[name] = times.get(name, 0.0) + time.perf_counter() - begun.pop()

        return add

    hooks = []
    for name, module in parts:
        hooks += [module.register_forward_pre_hook(start), module.register_forward_hook(stop(name))]
    try:
        yield times
    finally:
        for hook in hooks:
            hook.remove()
