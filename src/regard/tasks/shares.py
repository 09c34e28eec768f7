"""One file written by several processes: each its share of the pieces, then the first puts them in order."""

from collections.abc import Iterable
from itertools import count
from pathlib import Path

from regard import storage
from regard.training.distributed import World


def write_in_shares(pieces: Iterable[str], output: Path, world: World) -> None:
    """Piece after piece of this process beside the output; when all are done, they become the output.

    Process r of n has the pieces r, r + n, r + 2n ...; their lengths stand in a file beside them.
    """
    mine, lengths = part_of(output, world.rank), []
    with mine.open("wb") as out:
        for text in pieces:
            raw = text.encode()
            out.write(raw)
            lengths.append(len(raw))
    storage.write_text(lengths_of(mine), "".join(f"{length}\n" for length in lengths))
    world.barrier()
    if world.is_first:
        join(output, world.size)
    world.barrier()


def join(output: Path, processes: int) -> None:
    """Put the parts together, in order, and remove them."""
    parts = [part_of(output, rank) for rank in range(processes)]
    lengths = [[int(line) for line in lengths_of(part).read_text("utf-8").split()] for part in parts]
    files = [part.open("rb") for part in parts]
    try:
        with storage.atomic_path(output) as whole, whole.open("wb") as out:
            for piece in count():
                rank, place = piece % processes, piece // processes
                if place == len(lengths[rank]):
                    break
                out.write(files[rank].read(lengths[rank][place]))
    finally:
        for file in files:
            file.close()
    for part in parts:
        part.unlink()
        lengths_of(part).unlink()


def part_of(output: Path, rank: int) -> Path:
    return output.with_name(f".{output.name}.share-{rank}")


def lengths_of(part: Path) -> Path:
    return part.with_name(f"{part.name}.lengths")
