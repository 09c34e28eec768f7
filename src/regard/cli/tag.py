"""`regard tag`: sequence tagging, such as named entities."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import Files, JsonLines, Merge, Output, Run
from regard.cli.lines import Line, json_line, write_results

if TYPE_CHECKING:
    from regard.tasks.tagging.task import TaggedSentence


def tag(
    run: Run,
    files: Files = None,
    output: Output = None,
    words: Annotated[
        bool, typer.Option("--words", help="The input is tokenized: words separated by spaces.")
    ] = False,
    merge: Merge = None,
    as_json: JsonLines = False,
) -> None:
    """Tag the words of texts: word, tag and probability per line; with --json also the entities.

    Example:  echo "Empire State Building in New York" | regard tag runs/ner
    """
    from regard.tasks.encoder.reduction import parse_merge_amounts
    from regard.tasks.tagging.model import Tagger

    tagger = Tagger.load(run)
    if merge is not None:
        tagger.merge(parse_merge_amounts(merge))

    def tags(lines: list[Line]) -> Iterator[str]:
        sentences = [line.text.split() for line in lines] if words else [line.text for line in lines]
        for tagged in tagger.tag(sentences):
            yield json_line(asdict(tagged)) if as_json else columns(tagged)

    write_results(tags, files or [], output, tagger.tokenizer)


def columns(tagged: "TaggedSentence") -> str:
    """One word per line with its tag and probability, and a blank line after the sentence."""
    rows = zip(tagged.words, tagged.tags, tagged.probabilities, strict=True)
    return "".join(f"{word}\t{tag}\t{probability:.4f}\n" for word, tag, probability in rows) + "\n"
