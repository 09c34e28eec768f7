"""Decoding speed beside CTranslate2 (float32, int8) and Hugging Face, with the same weights.

    pip install -c constraints.txt -e '.[bench]'
    python benchmarks/decoding.py [--quick] [--json] [RUN SOURCE]

Every engine is a process of its own; they take turns in one run, and the median of a row's turns is printed.
Rows: case, ours, peer, value (the peer's), ratio.
"""

import argparse

from regard.bench import decoding
from regard.bench.turns import as_json, show


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds: about a minute")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("run", nargs="?", help="a trained run; random weights without one")
    parser.add_argument("source", nargs="?", help="its sentences, one a line")
    options = parser.parse_args()
    run, source = (str(each or "") for each in (options.run, options.source))
    rows = decoding.speeds(run, source, 3 if options.quick else 7)
    print(as_json(rows) if options.json else show(rows, "sentences a second"))


if __name__ == "__main__":
    main()
