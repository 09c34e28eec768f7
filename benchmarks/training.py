"""Training speed beside Hugging Face MarianMT and JoeyNMT, where they are installed.

    pip install -c constraints.txt -e '.[bench]'
    python benchmarks/training.py [--quick] [--json]

Every engine is a process of its own; they take turns in one run, and the median of a row's turns is printed.
Rows: case, ours, peer, value (the peer's), ratio.
"""

import argparse

from regard.bench import training
from regard.bench.turns import as_json, show


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds: about a minute")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    options = parser.parse_args()
    sizes = ("tiny", "small") if options.quick else tuple(training.SIZES)
    rows, shares = [], []
    for size in sizes:
        found, share = training.speeds(size, 3 if options.quick else 9)
        rows += found
        shares.append(f"{training.SIZES[size]}: {share:.0%}")
    print(as_json(rows) if options.json else show(rows, "target tokens a second"))
    if not options.json:
        print("share of the matrix-product peak, model operations: " + "; ".join(shares))


if __name__ == "__main__":
    main()
