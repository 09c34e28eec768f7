"""Follows the README as a new user: an empty folder, a fresh environment, two files.

    python benchmarks/newcomer.py SOURCE TARGET [--minutes 3] [--json]

Copies two files, plain or .gz, as `mine.de` and `mine.en`, without the last five lines, which become
`input.de`. Then runs the commands of the README that install, train on two files and translate. `--minutes`
overrides the README's `train.minutes`. Prints the minutes after which each command was done.
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
INPUT_LINES = 5


def commands(readme: str) -> tuple[str, str, str]:
    """The README's commands for installing, training on two files and translating."""
    patterns = (
        r"Install with `([^`]+)`",
        r"^\$ (regard train translation .+)$",
        r"^\$ (regard translate runs/mine .+)$",
    )
    matches = [re.search(pattern, readme, re.MULTILINE) for pattern in patterns]
    install, train, translate = (
        match.group(1) if match else sys.exit("the README has changed") for match in matches
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
    parser.add_argument("--minutes", type=float, help="minutes of training instead of the README's")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    options = parser.parse_args()
    install, train, translate = commands((ROOT / "README.md").read_text("utf-8"))
    if options.minutes is not None:
        train = re.sub(r"train\.minutes=\S+", f"train.minutes={options.minutes:g}", train)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, target = lines_of(options.source), lines_of(options.target)
        write(folder / "mine.de", source[:-INPUT_LINES])
        write(folder / "mine.en", target[:-INPUT_LINES])
        write(folder / "input.de", source[-INPUT_LINES:])
        environment = {
            **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
            "PATH": f"{folder / 'own' / 'bin'}:{os.environ['PATH']}",
            "REGARD_CACHE": str(folder / "cache"),
        }
        start_time, rows = time.monotonic(), []

        def run(case: str, command: str, cwd: Path) -> str:
            print(f"$ {command}", file=sys.stderr)
            process = subprocess.run(
                command, shell=True, cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, check=True
            )
            rows.append({"case": case, "minutes": (time.monotonic() - start_time) / 60})
            return process.stdout

        python = sys.executable if sys.prefix == sys.base_prefix else f"{sys.base_prefix}/bin/python3"
        run("environment created", f"{python} -m venv {folder / 'own'}", folder)
        run("installed", f"{install} --quiet --disable-pip-version-check", ROOT)
        output = run("trained", train, folder)
        run("translated", translate, folder)
        written = lines_of(folder / "output.en")
    if options.json:
        print(json.dumps(rows))
        return
    print(output, end="")
    for line, translation, reference in zip(source[-INPUT_LINES:], written, target[-INPUT_LINES:], strict=True):
        print(f"{line}\n    -> {translation}\n       {reference}")
    for row in rows:
        print(f"{row['case']} after {row['minutes']:.1f} minutes")


if __name__ == "__main__":
    main()
