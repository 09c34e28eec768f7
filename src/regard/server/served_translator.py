"""A translation model behind its queue: texts are split into sentences, which are translated in batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.decoding import BeamSearchConfig, LengthPolicy, Translation
from regard.decoding.length_policy import tokens_if_too_long
from regard.decoding.translator import TranslatedPart, join_parts
from regard.errors import RegardError
from regard.server.alignment import Alignment, concatenate, word_alignment
from regard.server.schemas import TranslatorInfo
from regard.server.served_model import AttentionJob, ServedModel
from regard.tasks.metrics_log import read_complete_rows
from regard.tasks.translation.model import Translator
from regard.tokenization import Tokenizer, word_count

MAX_EXAMPLES = 4
MAX_EXAMPLE_CHARACTERS = 120


@dataclass(frozen=True)
class TranslationJob:
    """Batch key of sentences to translate with the same options."""

    options: BeamSearchConfig
    attention: bool


@dataclass(frozen=True)
class AlignedTranslation:
    """The translation of a sentence or of a text."""

    translation: Translation
    words: int
    """Number of words of the source, without punctuation."""
    alignment: Alignment | None


@dataclass(frozen=True)
class SplitText:
    """A text as parts that fit the model, and a remark if it had to be split or cut."""

    parts: list[str]
    note: str | None


class ServedTranslator(ServedModel[Translator]):
    """A translation model and its queue."""

    def warm_up(self) -> None:
        loaded = self.loaded
        self.examples = example_sentences(loaded)
        source, max_length = loaded.vocabulary.source, loaded.recipe.model.max_length
        short = (text for text in self.examples if tokens_if_too_long(source, text, max_length) is None)
        maps = loaded.attention(next(short, "."))
        self.has_cross_attention = any(name.endswith("cross") for name in maps.layers)
        loaded.pipeline.freeze()

    @property
    def threads(self) -> int:
        return self.loaded.pipeline.search_threads

    def info(self) -> TranslatorInfo:
        source_language, target_language = self.loaded.recipe.data.direction
        return TranslatorInfo(
            name=self.name,
            task=self.task,
            source_language=source_language,
            target_language=target_language,
            beam=self.loaded.recipe.decode.beam,
            max_length=self.loaded.recipe.model.max_length,
            corpus="picturebook" if self.loaded.recipe.data.corpus == "picturebook" else None,
            attention=self.has_cross_attention,
            examples=self.examples,
            card=self.card,
        )

    def job(self, beam: int | None, nbest: int, attention: bool) -> TranslationJob:
        """The batch key of a request."""
        return TranslationJob(self.loaded.options(beam, nbest), attention and self.has_cross_attention)

    def split(self, text: str, number: int, long: LengthPolicy) -> SplitText:
        """The text as parts that fit the model; `number` is its line number in error messages and notes.

        Raises:
            RegardError: the text is too long, and `long` is "refuse".
        """
        notes: list[str] = []
        parts = self.loaded.pipeline.split(text, long, notes.append, number)
        return SplitText(parts, notes[0] if notes else None)

    def check_attention(self, text: str, target: str | None) -> None:
        max_length, vocabulary = self.loaded.recipe.model.max_length, self.loaded.vocabulary
        for key, tokenizer, value in (("text", vocabulary.source, text), ("target", vocabulary.target, target)):
            if (tokens := tokens_if_too_long(tokenizer, value or "", max_length)) is not None:
                raise RegardError(f"the {key} has {tokens} tokens, the model's maximum is {max_length}")

    def cost(self, batch_key: TranslationJob | AttentionJob) -> float:
        """Time of a sentence relative to the model's default beam size."""
        if isinstance(batch_key, AttentionJob):
            return 1.0
        return batch_key.options.beam / self.loaded.recipe.decode.beam

    def run_batch(self, batch_key: TranslationJob | AttentionJob, items: list[Any]) -> Sequence[Any]:
        match batch_key:
            case TranslationJob():
                return self.translate(batch_key, items)
            case AttentionJob():
                return self.attention(batch_key, items)

    def translate(self, job: TranslationJob, sentences: list[str]) -> list[AlignedTranslation]:
        """Translate sentences that fit the model."""
        parts = self.loaded.pipeline.translate_parts(sentences, job.options, batch_size=len(sentences))
        self.count(len(parts), sum(len(part.hypotheses[0].ids) for part in parts if part.hypotheses))
        return [
            AlignedTranslation(
                part.translation,
                word_count(self.loaded.tokenizer, sentence, part.translation.unknown_words),
                self.alignment(part) if job.attention else None,
            )
            for sentence, part in zip(sentences, parts, strict=True)
        ]

    def alignment(self, part: TranslatedPart) -> Alignment | None:
        """The alignment of a sentence with its translation, by the token ids of the search.

        None for a sentence that was cut, since the model did not read all of it.
        """
        translation = part.translation
        if not translation.text:
            return Alignment([], [], [])
        target_ids = part.hypotheses[0].ids
        if max(len(part.source_ids), len(target_ids)) >= self.loaded.recipe.model.max_length:
            return None
        maps = self.loaded.attention_of_ids(translation.source, part.source_ids, translation.text, target_ids)
        return word_alignment(maps)


def join_sentences(text: str, sentences: Sequence[AlignedTranslation], source: Tokenizer) -> AlignedTranslation:
    """The translation of a text from those of its parts."""
    translation = join_parts(text, [sentence.translation for sentence in sentences], source)
    alignments = [sentence.alignment for sentence in sentences if sentence.alignment is not None]
    words = sum(sentence.words for sentence in sentences)
    return AlignedTranslation(translation, words, concatenate(alignments) if alignments else None)


def example_sentences(loaded: Translator) -> list[str]:
    """Short sentences of the last validations, as examples of what the model was trained on."""
    path = loaded.folder.file("metrics.jsonl")
    rows = reversed(read_complete_rows(path)) if path.is_file() else ()
    samples = (sample for row in rows if isinstance(row.get("samples"), list) for sample in row["samples"])
    sources = (sample.get("source") for sample in samples if isinstance(sample, dict))
    texts = (text for text in sources if isinstance(text, str) and text.isprintable())
    short = (text for text in texts if 0 < len(text) <= MAX_EXAMPLE_CHARACTERS)
    return list(dict.fromkeys(short))[:MAX_EXAMPLES]
