"""Fine-tuning speed of a BERT beside Hugging Face, where it is installed, and the memory it takes.

    pip install -c constraints.txt -e '.[bench]'
    python benchmarks/bert.py [--quick] [--json]

Every engine is a process of its own; they take turns in one run, and the median of a row's turns is printed.
Rows: case, ours, peer, value (the peer's), ratio.
"""

import argparse

from regard.bench import bert
from regard.bench.turns import as_json, show


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: about two minutes")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    options = parser.parse_args()
    rows = [row for size in bert.SIZES for row in bert.speeds(size, 3 if options.quick else 9)]
    print(as_json(rows) if options.json else show(rows, "tokens a second"))
    if not options.json:
        told = f"{bert.SIZES['minilm'][0]}, batches of {bert.TOKENS:,} tokens"
        print(f"peak memory, {told}: {bert.memory('minilm'):.2f} GB")


if __name__ == "__main__":
    main()
