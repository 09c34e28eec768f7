"""Translation from recipe to run folder: read, split into tokens, train, measure, write the card."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from regard.config import DecodeSettings, TranslationRecipe
from regard.data.batches import Batches
from regard.data.corpus import Pair
from regard.data.parallel import ParallelCorpus
from regard.data.store import TokenStore, open_or_build, store_key
from regard.decoding import Options, Translator
from regard.disk import cache_folder
from regard.errors import DiskError
from regard.evaluation import Quality, measure
from regard.jobs.card import translation_card
from regard.jobs.folder import RunFolder
from regard.jobs.journal import Audience, Journal, Nobody, Silence, read_journal
from regard.jobs.signals import asked_to_stop
from regard.jobs.vocabulary import Vocabulary, make_vocabulary
from regard.look.curves import draw_training
from regard.look.figure import save as save_picture
from regard.models.build import build
from regard.training import checkpoint
from regard.training.distributed import World, joined, restarted
from regard.training.loop import Scores, Training, run
from regard.training.memory import settled
from regard.training.objective import PairObjective
from regard.training.precision import choose as choose_precision
from regard.training.sharding import is_sharded, own, shard

SAMPLES = 3


@dataclass(frozen=True)
class TranslationRun:
    """What `regard train` made of a translation recipe."""

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


def train(
    recipe: TranslationRecipe, out: Path, audience: Audience | None = None, *, resume: bool = False
) -> TranslationRun | None:
    """Train into the folder `out` and measure on the test split; with `resume`, go on from its checkpoint.

    Under torchrun the first process writes and measures; the others return nothing.
    """
    with joined() as world, settled():
        resume = resume or (restarted() and (out / "recipe.toml").is_file())
        audience = audience if audience and world.first else Nobody()
        if not world.first:
            world.wait()
            return train_into(RunFolder(out), recipe, audience, resume=resume, world=world)
        folder = RunFolder.to_resume(out, recipe) if resume else RunFolder.create(out)
        with folder.alone():
            return train_into(folder, recipe, audience, resume=resume, world=world)


def train_into(
    folder: RunFolder, recipe: TranslationRecipe, audience: Audience, *, resume: bool, world: World
) -> TranslationRun | None:
    """`train` in a folder that no other training writes into."""
    torch.manual_seed(recipe.train.seed)
    corpus = ParallelCorpus(recipe.data)
    fingerprint = corpus.fingerprint()
    audience.say(
        f"pairs: {corpus.report}; {len(corpus.valid):,} for validation, {len(corpus.test):,} for the test"
    )
    if world.first:
        folder.write_recipe(recipe)
        vocabulary = make_vocabulary(recipe, corpus, folder)
        vocabulary.save(folder.path)
        world.wait()
    else:
        vocabulary = Vocabulary.load(folder.path)
    audience.say(f"vocabulary: {vocabulary}")
    store = token_store(corpus, vocabulary, fingerprint)
    model = build(recipe.model, vocabulary.source.size, vocabulary.target.size, vocabulary.source.padding)
    if recipe.model.start:
        RunFolder.open(Path(recipe.model.start)).write_weights_into(model)
    told = f"model: {count_parameters(model):,} parameters on {device()}"
    if recipe.train.shard and world.size == 1:
        audience.say("train.shard: this process is alone and holds all; torchrun starts several")
    kept = shard(model, world, device()) if recipe.train.shard and world.size > 1 else None
    here = sum(own(each).numel() for each in model.parameters())
    audience.say(told + (f", {here:,} of them in this process" if is_sharded(model) else ""))
    model.to(device())
    batches = batches_of(recipe, store, vocabulary, (world.rank, world.size))
    training = Training(model, recipe.train, batches, recipe.model.width, world=world, kept=kept)
    checkpoints = Checkpoints(training, folder, audience)
    if resume and not checkpoint.resume(training, checkpoints.place, audience.say):
        audience.say("there is no checkpoint yet; training begins from the start")
    journal = Journal(folder.path, audience, recipe.train, training.step) if world.first else Silence()
    precision = choose_precision(recipe.train.precision, device(), audience.say)
    model.train()
    with asked_to_stop() as asked:
        run(
            training,
            PairObjective(
                model, vocabulary.target.padding, recipe.train.smoothing, recipe.train.r_drop, precision
            ),
            Validation(recipe, vocabulary, corpus.valid, journal),
            journal,
            keep_best=checkpoints.keep_best,
            checkpoint=checkpoints.save,
            asked_to_stop=asked,
        )
    return finish(recipe, folder, kept or model, vocabulary, corpus, training) if world.first else None


def finish(
    recipe: TranslationRecipe,
    folder: RunFolder,
    model: nn.Module,
    vocabulary: Vocabulary,
    corpus: ParallelCorpus,
    training: Training,
) -> TranslationRun:
    """Measure the best weights on the test split and complete the folder."""
    folder.write_weights_into(model)
    model.eval()
    quality, _ = translate_and_measure(recipe, model, vocabulary, corpus.test, recipe.decode.beam)
    loss = mean_loss(recipe, model, vocabulary, corpus.test)
    result = TranslationRun(
        folder.path, quality, loss, training.seconds / 60, training.step, count_parameters(model)
    )
    save_picture(draw_training(read_journal(folder.path / "metrics.jsonl")), folder.path / "curves")
    folder.write("README.md", translation_card(recipe, quality, loss, training, corpus.report, vocabulary))
    folder.write_config(recipe)
    return result


class Checkpoints:
    """Writes what a training must not lose; what cannot be written ends it, or is told, as set."""

    def __init__(self, training: Training, folder: RunFolder, audience: Audience) -> None:
        self.training, self.folder, self.audience = training, folder, audience
        self.place = folder.path / "checkpoints"

    def save(self) -> None:
        self.attempt(lambda: checkpoint.save(self.training, self.place, self.training.settings.keep))

    def keep_best(self, model: nn.Module) -> None:
        self.attempt(lambda: self.folder.write_weights(model))

    def attempt(self, write: Callable[[], object]) -> None:
        try:
            write()
        except DiskError as problem:
            steps = checkpoint.steps_in(self.place)
            kept = f"the checkpoint of step {steps[-1]} is kept" if steps else "there is no checkpoint yet"
            if self.training.settings.unwritable == "stop":
                raise DiskError(f"{problem}; {kept}") from None
            self.audience.say(f"{problem}; {kept}, training goes on")


class Validation:
    """Loss over all validation pairs, BLEU of greedy translations of some, a few of them as samples."""

    def __init__(
        self, recipe: TranslationRecipe, vocabulary: Vocabulary, pairs: Sequence[Pair], journal: Journal
    ) -> None:
        self.recipe, self.vocabulary, self.pairs, self.journal = recipe, vocabulary, pairs, journal

    def __call__(self, model: nn.Module, step: int) -> Scores:
        loss = mean_loss(self.recipe, model, self.vocabulary, self.pairs)
        some = self.pairs[: self.recipe.train.validate_sentences]
        quality, translations = translate_and_measure(self.recipe, model, self.vocabulary, some, beam=1)
        first = step * SAMPLES  # other sentences each time
        chosen = [(first + number) % len(some) for number in range(min(SAMPLES, len(some)))]
        self.journal.samples = [(some[number][0], translations[number]) for number in chosen]
        return {"loss": loss, "bleu": quality.bleu, "chrf": quality.chrf}


def translate_and_measure(
    recipe: TranslationRecipe, model: nn.Module, vocabulary: Vocabulary, pairs: Sequence[Pair], beam: int
) -> tuple[Quality, list[str]]:
    translator = Translator(model, vocabulary.source, vocabulary.target, recipe.model.longest)
    found = translator.translate(
        [source for source, _ in pairs], options_of(recipe.decode, beam), batch_size=recipe.decode.batch_size
    )
    translations = [each.text for each in found]
    references = [vocabulary.target.normalise(target) for _, target in pairs]
    return measure(translations, references, tokenised=is_tokenised(recipe)), translations


def mean_loss(
    recipe: TranslationRecipe, model: nn.Module, vocabulary: Vocabulary, pairs: Sequence[Pair]
) -> float:
    """The training loss a token, without dropout, over all pairs."""
    objective = PairObjective(model, vocabulary.target.padding, recipe.train.smoothing)
    total, tokens = 0.0, 0
    with torch.no_grad():
        for batch in Batches.of_pairs(
            vocabulary.encode_pairs(pairs), recipe.train.batch_tokens, recipe.model.longest
        ):
            total += float(objective(batch))
            tokens += batch.tokens
    return total / tokens


def options_of(decode: DecodeSettings, beam: int | None = None, nbest: int = 1) -> Options:
    return Options(
        beam=beam or decode.beam,
        nbest=nbest,
        length_penalty=decode.length_penalty,
        coverage=decode.coverage,
        no_repeat=decode.no_repeat,
    )


def is_tokenised(recipe: TranslationRecipe) -> bool:
    """Whether the text comes tokenised, so that BLEU takes its tokens as they are."""
    return recipe.text.tokenised or recipe.text.kind == "space"


def token_store(corpus: ParallelCorpus, vocabulary: Vocabulary, fingerprint: str) -> TokenStore:
    key = store_key(fingerprint, vocabulary.digest())
    return open_or_build(
        cache_folder() / "stores" / key,
        corpus.train,
        vocabulary.source.encode_batch,
        vocabulary.target.encode_batch,
    )


def batches_of(
    recipe: TranslationRecipe, store: TokenStore, vocabulary: Vocabulary, share: tuple[int, int] = (0, 1)
) -> Batches:
    return Batches(
        store,
        tokens=recipe.train.batch_tokens,
        sentences=recipe.train.batch_sentences,
        seed=recipe.train.seed,
        longest=recipe.model.longest,
        resample=vocabulary.resample(recipe.text.dropout) if recipe.text.dropout else None,
        share=share,
    )


def device() -> torch.device:
    """The GPU of this process, where there is one."""
    return (
        torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    )


def count_parameters(model: nn.Module) -> int:
    return sum(each.numel() for each in model.parameters())
