"""One output file written by several processes: each writes its part, then the first one merges them."""

from collections.abc import Iterable
from itertools import count
from pathlib import Path

from regard import storage
from regard.training.distributed import World


def write_distributed(texts: Iterable[str], output: Path, world: World) -> None:
    """Write this process's texts to a part file; when all processes have finished, merge the parts.

    Process r of n has the texts r, r + n, r + 2n ...; their lengths in bytes are in a file beside the part.
    """
    part, lengths = part_path(output, world.rank), []
    with part.open("wb") as out:
        for text in texts:
            raw = text.encode()
            out.write(raw)
            lengths.append(len(raw))
    storage.write_text(lengths_path(part), "".join(f"{length}\n" for length in lengths))
    world.barrier()
    if world.is_first:
        merge_parts(output, world.size)
    world.barrier()


def merge_parts(output: Path, processes: int) -> None:
    """Write the texts of all parts in order, and remove the parts."""
    parts = [part_path(output, rank) for rank in range(processes)]
    lengths = [[int(line) for line in lengths_path(part).read_text("utf-8").split()] for part in parts]
    files = [part.open("rb") for part in parts]
    try:
        with storage.atomic_path(output) as merged, merged.open("wb") as out:
            for number in count():
                rank, index = number % processes, number // processes
                if index == len(lengths[rank]):
                    break
                out.write(files[rank].read(lengths[rank][index]))
    finally:
        for file in files:
            file.close()
    for part in parts:
        part.unlink()
        lengths_path(part).unlink()


def part_path(output: Path, rank: int) -> Path:
    return output.with_name(f".{output.name}.part-{rank}")


def lengths_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.lengths")
