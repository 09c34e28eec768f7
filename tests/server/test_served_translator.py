"""The served translator: the pipeline's own search, and alignments of the ids that were searched."""

import pytest
from support.small_models import SENTENCES, transformer, write_run

import regard
from regard.nn.seq2seq import Hypothesis
from regard.server.alignment import word_alignment
from regard.server.metrics import Metrics
from regard.server.served_translator import ServedTranslator, TranslationJob
from regard.tokenization import Tokenizer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> ServedTranslator:
    run = write_run(tmp_path_factory.mktemp("runs") / "run", transformer())
    return ServedTranslator("run", regard.Translator.load(run), Metrics(dict), queue_size=64, max_batch=8)


def test_translations_equal_the_pipeline(served: ServedTranslator) -> None:
    pipeline, job = served.loaded.pipeline, served.job(3, 2, attention=True)
    translations = served.translate(job, [*SENTENCES, ""])
    assert [result.translation for result in translations] == pipeline.translate([*SENTENCES, ""], job.options)
    for part, result in zip(pipeline.translate_parts(SENTENCES, job.options), translations, strict=False):
        ids = part.hypotheses[0].ids
        if ids:
            maps = served.loaded.attention_of_ids(
                part.translation.source, part.source_ids, part.translation.text, ids
            )
            assert result.alignment == word_alignment(maps)


def test_alignments_use_the_ids_of_the_search(
    served: ServedTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search may split a word into other pieces than the tokenizer would."""
    loaded, target = served.loaded, served.loaded.vocabulary.target
    pieces = target.encode("one two")
    letters = [number for letter in target.tokens(pieces) for number in in_letters(target, letter)]
    assert len(letters) > len(pieces)
    assert target.decode(letters) == target.decode(pieces) == "one two"
    [hypothesis] = [Hypothesis(tuple(letters), -1.0, -1.0)]
    monkeypatch.setattr(
        loaded.pipeline, "search_ids", lambda encoded, *_, **__: [[hypothesis] for _ in encoded]
    )
    [result] = served.translate(TranslationJob(loaded.options(1), attention=True), ["drei vier"])
    source = loaded.vocabulary.source.encode("drei vier")
    assert result.translation.text == "one two"
    assert result.alignment == word_alignment(loaded.attention_of_ids("drei vier", source, "one two", letters))
    assert result.alignment != word_alignment(loaded.attention("drei vier", "one two"))


def in_letters(tokenizer: Tokenizer, piece: str) -> list[int]:
    """The ids of a piece's letters."""
    return [
        number for letter in piece for number in range(tokenizer.size) if tokenizer.tokens([number]) == [letter]
    ]
