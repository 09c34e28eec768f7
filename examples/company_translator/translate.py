"""`python translate.py RUN < input.de`: translates lines with the terms of glossary.tsv."""

import sys
from pathlib import Path

from glossary import Glossary, reveal

import regard


def main(run: str) -> None:
    glossary, model = Glossary.read(Path("glossary.tsv")), regard.Translator.load(run)
    for line in map(str.strip, sys.stdin):
        masked, translations = glossary.hide(line)
        [translated] = model.translate([masked])
        output = reveal(translated, translations)
        if output is None:
            print(f"a placeholder is missing; translated without the glossary: {line}", file=sys.stderr)
            [output] = model.translate([line])
        print(output)


if __name__ == "__main__":
    main(sys.argv[1])
