"""As a newcomer would: an empty folder, an environment of its own, two files, and what the README says.

    python benchmarks/newcomer.py SOURCE TARGET [--minutes 3] [--json]

Copies two files, plain or .gz, as `mine.de` and `mine.en`, without the last five lines, which are `input.de`.
Then runs the README's own commands: the one that installs, the one that trains on two files and the one that
translates. `--minutes` is laid over the README's `train.minutes`. Prints when each was done.
"""

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = 5


def commands(readme: str) -> tuple[str, str, str]:
    """What the README says to install, to train on two files and to translate with."""
    places = (
        r"Install with `([^`]+)`",
        r"^\$ (regard train translation .+)$",
        r"^\$ (regard translate runs/mine .+)$",
    )
    found = [re.search(place, readme, re.MULTILINE) for place in places]
    install, train, translate = (
        each.group(1) if each else sys.exit("the README has changed") for each in found
    )
    return install, train, translate


def lines_of(path: Path) -> list[str]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    return text.removesuffix("\n").split("\n")


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--minutes", type=float, help="of training, instead of the README's")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    options = parser.parse_args()
    install, train, translate = commands((ROOT / "README.md").read_text("utf-8"))
    if options.minutes is not None:
        train = re.sub(r"train\.minutes=\S+", f"train.minutes={options.minutes:g}", train)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        source, target = lines_of(options.source), lines_of(options.target)
        write(place / "mine.de", source[:-KEPT])
        write(place / "mine.en", target[:-KEPT])
        write(place / "input.de", source[-KEPT:])
        surroundings = {
            **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
            "PATH": f"{place / 'own' / 'bin'}:{os.environ['PATH']}",
            "REGARD_CACHE": str(place / "cache"),
        }
        began, rows = time.monotonic(), []

        def run(case: str, command: str, where: Path) -> str:
            print(f"$ {command}", file=sys.stderr)
            done = subprocess.run(
                command, shell=True, cwd=where, env=surroundings, text=True, stdout=subprocess.PIPE, check=True
            )
            rows.append({"case": case, "minutes": (time.monotonic() - began) / 60})
            return done.stdout

        python = sys.executable if sys.prefix == sys.base_prefix else f"{sys.base_prefix}/bin/python3"
        run("an environment made", f"{python} -m venv {place / 'own'}", place)
        run("installed", f"{install} --quiet --disable-pip-version-check", ROOT)
        told = run("trained", train, place)
        run("translated", translate, place)
        written = lines_of(place / "output.en")
    if options.json:
        print(json.dumps(rows))
        return
    print(told, end="")
    for read, wrote, meant in zip(source[-KEPT:], written, target[-KEPT:], strict=True):
        print(f"{read}\n    -> {wrote}\n       {meant}")
    for row in rows:
        print(f"{row['case']} after {row['minutes']:.1f} minutes")


if __name__ == "__main__":
    main()
