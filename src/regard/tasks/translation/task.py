"""Training of a translation model: from recipe to run folder with data, vocabulary, scores and model card."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import nn

from regard.data.batches import Batches
from regard.data.corpus import Pair
from regard.data.parallel import ParallelCorpus
from regard.data.token_store import TokenStore, open_or_build, store_key
from regard.decoding import BeamSearchConfig, TranslationPipeline
from regard.metrics import Quality, score_translations
from regard.nn.build import build
from regard.storage import cache_folder
from regard.tasks import training
from regard.tasks.metrics_log import MetricsLogger, PhaseProgress, ProgressListener, read_metrics
from regard.tasks.model_card import translation_card
from regard.tasks.results import Summary, saved_line, score_text
from regard.tasks.run_folder import RunFolder
from regard.tasks.training import count_parameters
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.vocabulary import Vocabulary, make_vocabulary
from regard.training.distributed import World
from regard.training.objectives import Seq2SeqObjective
from regard.training.state import Scores, Training
from regard.viz.charts import draw_training
from regard.viz.figure import save as save_picture

SAMPLES = 3
DIGEST_BYTES = 32


@dataclass(frozen=True)
class TranslationRun:
    """The result of training a translation model."""

    folder: Path
    quality: Quality
    loss: float
    minutes: float
    steps: int
    parameters: int

    def as_json(self) -> dict[str, object]:
        return {
            "run": str(self.folder),
            **asdict(self.quality),
            "loss": self.loss,
            "minutes": self.minutes,
            "steps": self.steps,
            "parameters": self.parameters,
        }

    def summary(self) -> Summary:
        lines = quality_lines(self.quality, self.loss, f"{self.steps:,} steps, {self.minutes:.1f} minutes")
        return Summary((*lines, saved_line(self.folder, score_text("bleu", self.quality.bleu))))


def train(
    recipe: TranslationRecipe, out: Path, listener: ProgressListener | None = None, *, resume: bool = False
) -> TranslationRun | None:
    """Train into the folder `out` and evaluate on the test split; `resume` continues from its checkpoint."""
    return training.train(TranslationTask(recipe), out, listener, resume=resume)


class TranslationTask:
    """Data, vocabulary, objective, validation and result of a translation recipe."""

    def __init__(self, recipe: TranslationRecipe) -> None:
        self.recipe, self.settings, self.width = recipe, recipe.train, recipe.model.width
        self.corpus: ParallelCorpus
        self.vocabulary: Vocabulary
        self.store: TokenStore

    def prepare(self, folder: RunFolder, listener: ProgressListener, world: World) -> nn.Module:
        recipe = self.recipe
        if world.is_first:
            with listener.phase("reading"):
                corpus = ParallelCorpus(recipe.data)
                fingerprint = corpus.fingerprint()
            held_out = f"{len(corpus.valid):,} for validation, {len(corpus.test):,} for the test"
            listener.log(f"pairs: {corpus.report}; {held_out}")
            folder.write_recipe(recipe)
            with listener.phase("vocabulary"):
                vocabulary = make_vocabulary(recipe, corpus, folder)
            vocabulary.save(folder.path)
            world.barrier()
            world.broadcast(corpus.count, *bytes.fromhex(fingerprint))
        else:
            vocabulary = Vocabulary.load(folder.path)
            count, *digest = map(int, world.broadcast(*[0.0] * (1 + DIGEST_BYTES)))
            corpus, fingerprint = ParallelCorpus(recipe.data, count), bytes(digest).hex()
        self.corpus, self.vocabulary = corpus, vocabulary
        listener.log(f"vocabulary: {vocabulary}")
        with listener.phase("encoding", total=corpus.report.kept, unit="pairs") as progress:
            self.store = token_store(corpus, vocabulary, fingerprint, progress)
        corpus.close()  # training reads the token store
        model = build(recipe.model, vocabulary.source.size, vocabulary.target.size, vocabulary.source.padding)
        if recipe.model.start:
            RunFolder.open(Path(recipe.model.start)).load_weights(model)
        return model

    def batches(self, world: World) -> Batches:
        return batches_of(self.recipe, self.store, self.vocabulary, (world.rank, world.size))

    def objective(self, model: nn.Module, precision: torch.dtype) -> Seq2SeqObjective:
        train = self.recipe.train
        return Seq2SeqObjective(model, self.vocabulary.target.padding, train.smoothing, train.r_drop, precision)

    def validation(self, logger: MetricsLogger) -> "Validation":
        return Validation(self.recipe, self.vocabulary, self.corpus.valid, logger)

    def finish(
        self, folder: RunFolder, model: nn.Module, training: Training, listener: ProgressListener
    ) -> TranslationRun:
        """Evaluate the best weights on the test split and complete the folder."""
        recipe, vocabulary, corpus = self.recipe, self.vocabulary, self.corpus
        beam, count = recipe.decode.beam, len(corpus.test)
        with listener.phase("test", f"beam {beam}", total=count, unit="sentences") as progress:
            quality, _ = translate_and_score(recipe, model, vocabulary, corpus.test, beam, progress)
        with listener.phase("test", "loss", total=count, unit="sentences", announce=False) as progress:
            loss = mean_loss(recipe, model, vocabulary, corpus.test, progress)
        result = TranslationRun(
            folder.path, quality, loss, training.seconds / 60, training.step, count_parameters(model)
        )
        save_picture(draw_training(read_metrics(folder.path / "metrics.jsonl")), folder.path / "curves")
        folder.write("README.md", translation_card(recipe, quality, loss, training, corpus.report, vocabulary))
        folder.write_config(recipe)
        return result


class Validation:
    """Loss over all validation pairs, BLEU of greedy translations of the first ones, and some samples."""

    def __init__(
        self, recipe: TranslationRecipe, vocabulary: Vocabulary, pairs: Sequence[Pair], logger: MetricsLogger
    ) -> None:
        self.recipe, self.vocabulary, self.pairs, self.logger = recipe, vocabulary, pairs, logger

    def __call__(self, model: nn.Module, step: int) -> Scores:
        recipe, vocabulary, phase = self.recipe, self.vocabulary, self.logger.listener.phase
        with phase("valid", "loss", total=len(self.pairs), unit="sentences", announce=False) as progress:
            loss = mean_loss(recipe, model, vocabulary, self.pairs, progress)
        pairs = self.pairs[: recipe.train.validate_sentences]
        with phase("valid", "greedy", total=len(pairs), unit="sentences", announce=False) as progress:
            quality, translations = translate_and_score(recipe, model, vocabulary, pairs, 1, progress)
        first = step * SAMPLES  # other sentences at each validation
        numbers = [(first + offset) % len(pairs) for offset in range(min(SAMPLES, len(pairs)))]
        self.logger.samples = [(pairs[number][0], translations[number]) for number in numbers]
        return {"loss": loss, "bleu": quality.bleu, "chrf": quality.chrf}


def translate_and_score(
    recipe: TranslationRecipe,
    model: nn.Module,
    vocabulary: Vocabulary,
    pairs: Sequence[Pair],
    beam: int,
    progress: PhaseProgress | None = None,
) -> tuple[Quality, list[str]]:
    """Scores of a model's translations of the pairs, and the translations."""
    pipeline = TranslationPipeline(model, vocabulary.source, vocabulary.target, recipe.model.max_length)
    results = pipeline.translate(
        [source for source, _ in pairs],
        search_options(recipe, beam),
        batch_size=recipe.decode.batch_size,
        advance=None if progress is None else progress.add,
    )
    translations = [result.text for result in results]
    references = [vocabulary.target.normalize(target) for _, target in pairs]
    return score_translations(translations, references, tokenized=is_tokenized(recipe)), translations


def mean_loss(
    recipe: TranslationRecipe,
    model: nn.Module,
    vocabulary: Vocabulary,
    pairs: Sequence[Pair],
    progress: PhaseProgress | None = None,
) -> float:
    """The training loss per token over all pairs, without dropout."""
    objective = Seq2SeqObjective(model, vocabulary.target.padding, recipe.train.smoothing)
    total, tokens = 0.0, 0
    with torch.no_grad():
        for batch in Batches.of_pairs(
            vocabulary.encode_pairs(pairs), recipe.train.batch_tokens, recipe.model.max_length
        ):
            total += float(objective(batch))
            tokens += batch.tokens
            if progress is not None:
                progress.add(batch.rows)
    return total / tokens


def quality_lines(quality: Quality, loss: float, note: str = "") -> tuple[str, str]:
    """The scores in one line, and sacreBLEU's signature."""
    notes = ", ".join([f"{quality.sentences:,} test sentences", *([note] if note else [])])
    scores = f"BLEU {quality.bleu:.2f}   chrF {quality.chrf:.2f}   TER {quality.ter:.2f}   loss {loss:.3f}"
    return f"{scores}   ({notes})", f"signature: {quality.signature}"


def search_options(recipe: TranslationRecipe, beam: int | None = None, nbest: int = 1) -> BeamSearchConfig:
    """The recipe's beam search settings; the beam size is at least `nbest`."""
    decode = recipe.decode
    options = BeamSearchConfig(
        beam=decode.beam if beam is None else beam,
        nbest=nbest,
        length_penalty=decode.length_penalty,
        coverage=decode.coverage,
        no_repeat=decode.no_repeat,
    )
    return replace(options, beam=max(options.beam, nbest))


def is_tokenized(recipe: TranslationRecipe) -> bool:
    """Whether the text is tokenized already, so that BLEU does not tokenize it again."""
    return recipe.tokenizer.tokenized or recipe.tokenizer.kind == "space"


def token_store(
    corpus: ParallelCorpus, vocabulary: Vocabulary, fingerprint: str, progress: PhaseProgress | None = None
) -> TokenStore:
    key = store_key(fingerprint, vocabulary.digest())

    def encode_source(texts: list[str]) -> list[list[int]]:
        if progress is not None:
            progress.add(len(texts))
        return vocabulary.source.encode_batch(texts)

    return open_or_build(
        cache_folder() / "stores" / key,
        corpus.train,
        encode_source,
        vocabulary.target.encode_batch,
        (vocabulary.source.size, vocabulary.target.size),
    )


def batches_of(
    recipe: TranslationRecipe, store: TokenStore, vocabulary: Vocabulary, share: tuple[int, int] = (0, 1)
) -> Batches:
    return Batches(
        store,
        tokens=recipe.train.batch_tokens,
        sentences=recipe.train.batch_sentences,
        seed=recipe.train.seed,
        max_length=recipe.model.max_length,
        resample=vocabulary.resample(recipe.tokenizer.dropout) if recipe.tokenizer.dropout else None,
        shard=share,
    )
