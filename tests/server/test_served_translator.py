"""The served translator: the pipeline's own search, and alignments of the ids that were searched."""

import pytest
from support.small_models import SENTENCES, transformer, write_run

import regard
from regard.nn.seq2seq import Hypothesis
from regard.server.alignment import aligned
from regard.server.translator import Search, ServedTranslator
from regard.tokenization import Tokenizer


@pytest.fixture(scope="module")
def run_server(tmp_path_factory: pytest.TempPathFactory) -> ServedTranslator:
    run = write_run(tmp_path_factory.mktemp("runs") / "run", transformer())
    nothing = {"batched": lambda size: None, "counted": lambda sentences, tokens: None}
    return ServedTranslator("run", regard.Translator.load(run), room=64, batch=8, **nothing)


def test_translations_are_the_pipelines(served: ServedTranslator) -> None:
    pipeline, way = served.loaded.pipeline, served.search(3, 2, attention=True)
    found = served.translate(way, [*SENTENCES, ""])
    assert [each.translation for each in found] == pipeline.translate([*SENTENCES, ""], way.options)
    for part, each in zip(pipeline.translate_parts(SENTENCES, way.options), found, strict=False):
        ids = part.hypotheses[0].ids
        if ids:
            maps = served.loaded.attention_of_ids(
                part.translation.source, part.source_ids, part.translation.text, ids
            )
            assert each.alignment == aligned(maps)


def test_alignments_are_of_the_ids_searched_not_of_the_text_tokenised_again(
    served: ServedTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beam may write a word in other pieces than the tokenizer would."""
    loaded, target = served.loaded, served.loaded.vocabulary.target
    pieces = target.encode("one two")
    letters = [number for letter in target.tokens(pieces) for number in in_letters(target, letter)]
    assert len(letters) > len(pieces)
    assert target.decode(letters) == target.decode(pieces) == "one two"
    [hypothesis] = [Hypothesis(tuple(letters), -1.0, -1.0)]
    monkeypatch.setattr(
        loaded.pipeline, "search_ids", lambda encoded, *_, **__: [[hypothesis] for _ in encoded]
    )
    [found] = served.translate(Search(loaded.options(1), attention=True), ["drei vier"])
    source = loaded.vocabulary.source.encode("drei vier")
    assert found.translation.text == "one two"
    assert found.alignment == aligned(loaded.attention_of_ids("drei vier", source, "one two", letters))
    assert found.alignment != aligned(loaded.attention("drei vier", "one two"))


def in_letters(tokenizer: Tokenizer, piece: str) -> list[int]:
    """The ids of a piece's letters."""
    return [
        number for letter in piece for number in range(tokenizer.size) if tokenizer.tokens([number]) == [letter]
    ]
