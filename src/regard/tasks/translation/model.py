"""A trained translation model: translation, evaluation, attention maps."""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import torch

from regard.data.corpus import Pair, read_pairs
from regard.data.parallel import ParallelCorpus
from regard.decoding import BeamSearchConfig, LengthPolicy, TranslationPipeline
from regard.errors import RegardError
from regard.limits import MAX_BATCH_SIZE, check_range
from regard.metrics import Quality, bleu_by_length, score_translations
from regard.nn import Recorder
from regard.nn.build import build
from regard.nn.ensemble import Ensemble
from regard.nn.knn import KnnModel
from regard.tasks import load
from regard.tasks.loaded_model import TextModel
from regard.tasks.results import ResultTable, Summary
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.datastore_file import load_datastore
from regard.tasks.translation.task import is_tokenized, mean_loss, quality_lines, search_options
from regard.tasks.translation.vocabulary import Vocabulary
from regard.tokenization import Tokenizer, unknown_tokens
from regard.training.devices import choose_device
from regard.viz.attention_maps import AttentionMaps, Layer, TokenSequence

PROGRESS_SENTENCES = 256
"""Sentences between two lines of progress."""


@dataclass(frozen=True)
class Evaluation:
    """Scores of a run on a test set."""

    quality: Quality
    loss: float
    by_length: list[dict[str, float | str]]
    translations: list[str]
    references: list[str]
    seconds: float
    """Time of translation."""

    def as_json(self) -> dict[str, object]:
        return {
            **asdict(self.quality),
            "loss": self.loss,
            "perplexity": math.exp(min(self.loss, 700)),
            "by_length": self.by_length,
        }

    def summary(self) -> Summary:
        rows = [(str(row["words"]), str(row["sentences"]), f"{row['bleu']:.2f}") for row in self.by_length]
        return Summary(
            quality_lines(self.quality, self.loss), ResultTable(("source words", "sentences", "BLEU"), rows)
        )


class Translator(TextModel):
    """A translation run, or an ensemble of runs; with kNN datastores where the runs have them.

    Attention maps are those of the first run.

    Args:
        folder: The run folder.
        recipe: Its recipe.
        others: Further members of the ensemble.
        use_datastore: Whether the run's kNN datastore is used.
    """

    does = "translates"
    recipe: TranslationRecipe

    def __init__(
        self,
        folder: RunFolder,
        recipe: TranslationRecipe,
        others: Sequence["Translator"] = (),
        *,
        use_datastore: bool = True,
    ) -> None:
        self.folder, self.recipe = folder, recipe
        self.vocabulary = Vocabulary.load(folder.path)
        self.tokenizer = self.vocabulary.source
        sizes = self.vocabulary.source.size, self.vocabulary.target.size
        with torch.device("meta"):  # shapes are checked before memory is allocated
            folder.check_weights(build(recipe.model, *sizes, self.vocabulary.source.padding))
        self.model = build(recipe.model, *sizes, self.vocabulary.source.padding)
        folder.load_weights(self.model)
        self.model.to(choose_device()).eval()
        self.models = [self.model, *(other.model for other in others)]
        self.datastore = load_datastore(folder, self.model) if use_datastore else None
        self.search_model = self.model if self.datastore is None else KnnModel(self.model, self.datastore)
        for other in others:
            if other.vocabulary.digest() != self.vocabulary.digest():
                raise RegardError(
                    f"{other.folder.path} has another vocabulary than {folder.path}; the runs of an ensemble "
                    "need the same vocabulary, as runs with the same data and other seeds have"
                )
        self.pipeline = TranslationPipeline(
            Ensemble([self.search_model, *(other.search_model for other in others)])
            if others
            else self.search_model,
            self.vocabulary.source,
            self.vocabulary.target,
            min([recipe.model.max_length, *(other.recipe.model.max_length for other in others)]),
        )

    @classmethod
    def load(cls, run: str | Path, *others: str | Path) -> "Translator":
        """Open a translation run, or several as an ensemble.

        Raises:
            RegardError: A folder holds no finished run, or one of another task.
        """
        return cls.of(load(run, *others))

    def options(self, beam: int | None = None, nbest: int = 1) -> BeamSearchConfig:
        """The recipe's beam search settings, with another beam size or more results."""
        return search_options(self.recipe, beam, nbest)

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam: int | None = None,
        batch_size: int | None = None,
        long: LengthPolicy = "split",
    ) -> list[str]:
        """One translation per text.

        Args:
            texts: Source texts.
            beam: Beam size; None for the recipe's.
            batch_size: Sentences per batch; None for the recipe's.
            long: What to do with a text longer than the model allows.
        """
        if batch_size is None:
            batch_size = self.recipe.decode.batch_size
        check_range("batch_size", batch_size, 1, MAX_BATCH_SIZE)
        translations = self.pipeline.translate(texts, self.options(beam), batch_size=batch_size, long=long)
        return [translation.text for translation in translations]

    def input_ids(self, text: str) -> list[int]:
        """The ids of a source text and `</s>`."""
        return [*self.tokenizer.encode(text), self.tokenizer.end]

    def test_pairs(self) -> list[Pair]:
        """The test split of the recipe's data, which must still exist."""
        return ParallelCorpus(self.recipe.data).test

    def references(self, pairs: Sequence[Pair]) -> list[str]:
        """The target sentences, normalized as the model's vocabulary is (lower case, Unicode)."""
        return [self.vocabulary.target.normalize(target) for _, target in pairs]

    def evaluate(
        self,
        pairs: Sequence[Pair],
        *,
        beam: int | None = None,
        batch_size: int | None = None,
        log: Callable[[str], object] | None = None,
    ) -> Evaluation:
        """Scores and loss over the pairs, and BLEU by length; the loss of an ensemble is its members' mean.

        Args:
            pairs: Sources and references.
            beam: Beam size; None for the recipe's.
            batch_size: Sentences per batch; None for the recipe's.
            log: Receives a line of progress after every PROGRESS_SENTENCES sentences.
        """
        sources = [source for source, _ in pairs]
        references = self.references(pairs)
        start = time.perf_counter()
        chunk = PROGRESS_SENTENCES if log is not None else max(1, len(sources))
        translations: list[str] = []
        for first in range(0, len(sources), chunk):
            translations += self.translate(sources[first : first + chunk], beam=beam, batch_size=batch_size)
            if log is not None and len(translations) < len(sources):
                log(f"  {len(translations):,} of {len(sources):,} sentences")
        seconds = time.perf_counter() - start
        tokenized = is_tokenized(self.recipe)
        return Evaluation(
            quality=score_translations(translations, references, tokenized=tokenized),
            loss=fmean(mean_loss(self.recipe, model, self.vocabulary, pairs) for model in self.models),
            by_length=bleu_by_length(sources, translations, references, tokenized=tokenized),
            translations=translations,
            references=references,
            seconds=seconds,
        )

    @torch.no_grad()
    def attention(self, text: str, target: str | None = None) -> AttentionMaps:
        """Attention weights of every layer and head for a text and its translation, or a given target.

        A text longer than the model allows is truncated with a warning.
        """
        source_ids = self.truncated_ids(self.vocabulary.source, text, "text")
        if target is None:
            [hypotheses] = self.pipeline.search_ids([source_ids], self.options())
            target = self.pipeline.detokenize(text, hypotheses, source_ids).text
            target_ids = list(hypotheses[0].ids[: self.recipe.model.max_length - 1]) if hypotheses else []
        else:
            target_ids = self.truncated_ids(self.vocabulary.target, target, "target")
        return self.attention_of_ids(text, source_ids, target, target_ids)

    @torch.no_grad()
    def attention_of_ids(
        self, source: str, source_ids: Sequence[int], target: str, target_ids: Sequence[int]
    ) -> AttentionMaps:
        """Attention weights of a teacher-forced pass over source and target ids, both without `</s>`."""
        source_vocabulary, target_vocabulary = self.vocabulary.source, self.vocabulary.target
        device = self.pipeline.device
        record = Recorder()
        self.model.hidden(
            torch.tensor([[*source_ids, source_vocabulary.end]], device=device),
            torch.tensor([[target_vocabulary.begin, *target_ids]], device=device),
            record,
        )
        inputs = token_sequence("source", source, source_vocabulary, [*source_ids, source_vocabulary.end])
        outputs = token_sequence("translation", target, target_vocabulary, [*target_ids, target_vocabulary.end])
        prefix = token_sequence(
            "translation so far", target, target_vocabulary, [target_vocabulary.begin, *target_ids]
        )
        sides = {"encoder": (inputs, inputs), "cross": (outputs, inputs), "self": (outputs, prefix)}
        return AttentionMaps(
            inputs,
            outputs,
            {
                name: Layer(*sides[attention_kind(name)], weights[0].float().cpu().numpy())
                for name, weights in record.items()
            },
        )

    def truncated_ids(self, tokenizer: Tokenizer, text: str, subject: str) -> list[int]:
        """The ids of a text, truncated with a warning to what the model allows next to `</s>`."""
        ids, max_ids = tokenizer.encode(text), self.recipe.model.max_length - 1
        if len(ids) > max_ids:
            warnings.warn(
                f"the {subject} has {len(ids) + 1} tokens, the model allows {max_ids + 1}: "
                "the rest is left out",
                stacklevel=3,
            )
        return ids[:max_ids]


def attention_kind(layer: str) -> str:
    """The kind of attention of a layer by its name: encoder, cross or self (of the decoder)."""
    return "encoder" if layer.startswith("encoder") else layer.rpartition(".")[2]


def token_sequence(name: str, text: str, tokenizer: Tokenizer, ids: list[int]) -> TokenSequence:
    """Ids as tokens and as the words that they form; unknown words as they are spelled in the text."""
    tokens, groups = tokenizer.tokens(ids), tokenizer.word_groups(ids)
    unknown = unknown_spellings(text, tokenizer, ids)
    words = tokenizer.decode_batch([[ids[index] for index in group] for group in groups])
    labels = (
        word.strip() or "".join(unknown.get(index, tokens[index]) for index in group)
        for word, group in zip(words, groups, strict=True)
    )
    return TokenSequence(
        name, text, tuple(tokens), tuple(labels), tuple(map(tuple, groups)), tuple(unknown.items())
    )


def unknown_spellings(text: str, tokenizer: Tokenizer, ids: Sequence[int]) -> dict[int, str]:
    """The spelling of each unknown id, by its position in `ids`, which may be truncated.

    Empty if `ids` are those of two texts and one of them is truncated: then the positions are ambiguous.
    """
    positions = [position for position, token_id in enumerate(ids) if token_id == tokenizer.unknown]
    if not positions or tokenizer.unknown == tokenizer.end:  # byte-level: no id of a text is unknown
        return {}
    spellings = [text[start:end].strip() for start, end in unknown_tokens(tokenizer, text)]
    if len(spellings) < len(positions) or (len(spellings) > len(positions) and "\n" in text):
        return {}
    return {position: spelling for position, spelling in zip(positions, spellings, strict=False) if spelling}


def memory_advice(batch_size: int, beam: int) -> str:
    """What to lower when memory is exhausted."""
    return f"lower --batch-size (now {batch_size}) or --beam (now {beam})"


def pairs_of_files(source: str | Path | None, target: str | Path | None) -> list[Pair] | None:
    """The pairs of --source and --target; None where neither is given."""
    if source is None and target is None:
        return None
    if source is None or target is None:
        raise RegardError("--source and --target belong together; give the sentences and their references")
    return list(read_pairs(source, target))
