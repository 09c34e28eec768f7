"""`python translate.py RUN < input.de`: translate lines, with the terms of glossary.tsv."""

import sys
from pathlib import Path

from glossary import Glossary, show

import regard


def main(run: str) -> None:
    glossary, model = Glossary.read(Path("glossary.tsv")), regard.Translator.load(run)
    for line in map(str.strip, sys.stdin):
        hidden, meant = glossary.hide(line)
        [translated] = model.translate([hidden])
        shown = show(translated, meant)
        if shown is None:
            print(f"a term was lost, so the glossary was not used: {line}", file=sys.stderr)
            [shown] = model.translate([line])
        print(shown)


if __name__ == "__main__":
    main(sys.argv[1])
