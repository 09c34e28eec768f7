"""A translation model exported, and whether it says what the run says: both translate the same sentences."""

import operator
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from regard import storage
from regard.data.batches import Batches
from regard.data.corpus import read_lines
from regard.decoding import BeamSearchConfig, Translation, TranslationPipeline
from regard.errors import RegardError
from regard.interop import by_transformers, marian
from regard.tasks.engines import ExportedTranslator
from regard.tasks.export_card import export_card
from regard.tasks.export_check import MOST, Check
from regard.tasks.formats import Format, write
from regard.tasks.metrics_log import whole_rows
from regard.tasks.spec import ExportOptions
from regard.tasks.translation.model import Translator


def export(loaded: Translator, options: ExportOptions) -> Check:
    """Write the model and its vocabulary, and translate the same sentences with both."""
    sentences = sentences_of(loaded, options.source)
    write(loaded, options.format, options.folder, options.quantization)
    check = compared(loaded, options.format, options.folder, sentences)
    storage.write_text(options.folder / "README.md", export_card(loaded.recipe, options.format, check))
    return check


def compared(loaded: Translator, to: Format, folder: Path, sentences: Sequence[str]) -> Check:
    """The model and the export side by side."""
    if to == "huggingface":
        return compared_by_transformers(loaded, folder, sentences)
    engine = ExportedTranslator(folder, to)
    beam = beam_of(loaded)
    same: list[int] = []
    apart = 0.0
    for options in (loaded.options(1), loaded.options(beam)):
        both = zip(
            translated(loaded.pipeline, sentences, options),
            translated(engine.pipeline, sentences, options),
            strict=True,
        )
        alike = [abs(one.score - other.score) for one, other in both if one.text == other.text]
        same.append(len(alike))
        apart = max([apart, *alike])
    what = "scores where the text is the same"
    return Check(engine.name, len(sentences), named(beam, same), what, apart)


def compared_by_transformers(loaded: Translator, folder: Path, sentences: Sequence[str]) -> Check:
    """The model and what `transformers` makes of the folder; where that is missing, what regard makes of it."""
    beam = beam_of(loaded)
    mine = [texts(loaded, loaded.pipeline, sentences, each) for each in (1, beam)]
    logits: Callable[[Tensor, Tensor], Tensor]
    if by_transformers.is_installed():
        opened = by_transformers.OpenedTranslator(folder)
        name, logits = opened.name, opened.logits
        theirs = [opened.translate(sentences, each) for each in (1, beam)]
    else:
        model = marian.read(folder).model
        name, logits = by_transformers.MISSING, model
        vocabulary, max_length = loaded.vocabulary, loaded.recipe.model.max_length
        again = TranslationPipeline(model, vocabulary.source, vocabulary.target, max_length)
        theirs = [texts(loaded, again, sentences, each) for each in (1, beam)]
    same = [sum(map(operator.eq, *both)) for both in zip(mine, theirs, strict=True)]
    apart = logits_apart(loaded, logits, sentences, mine[0])
    return Check(name, len(sentences), named(beam, same), "logits", apart)


def named(beam: int, same: Sequence[int]) -> dict[str, int]:
    return {"greedy": same[0], f"beam {beam}": same[1]}


def beam_of(loaded: Translator) -> int:
    """The recipe's beam; where it is greedy, the smallest that is not."""
    return max(2, loaded.recipe.decode.beam)


def texts(loaded: Translator, pipeline: TranslationPipeline, sentences: Sequence[str], beam: int) -> list[str]:
    return [each.text for each in translated(pipeline, sentences, loaded.options(beam))]


@torch.inference_mode()
def logits_apart(
    loaded: Translator,
    theirs: Callable[[Tensor, Tensor], Tensor],
    sources: Sequence[str],
    targets: Sequence[str],
) -> float:
    """The largest difference of two models' scores over pairs of sentences, padding left out."""
    pairs = loaded.vocabulary.encode_pairs(list(zip(sources, targets, strict=True)))
    apart = 0.0
    for batch in Batches.of_pairs(pairs, 2048, loaded.recipe.model.max_length):
        source = batch.source.padded(loaded.vocabulary.source.padding)
        target = batch.target.padded(loaded.vocabulary.target.padding)
        device = loaded.pipeline.device
        difference = loaded.model(source.to(device), target.to(device)).cpu() - theirs(source, target)
        apart = max(apart, float(batch.target.repacked(difference).values.abs().max()))
    return apart


def translated(
    pipeline: TranslationPipeline, sentences: Sequence[str], options: BeamSearchConfig
) -> list[Translation]:
    return pipeline.translate(sentences, options, long="cut", warn=lambda message: None)


def sentences_of(loaded: Translator, source: str | Path | None) -> list[str]:
    """Sentences to check with: those of a file, or those the run translated while it was trained."""
    if source is not None:
        found = [line for line in read_lines(Path(source)) if line.strip()]
    else:
        logger = loaded.folder.file("metrics.jsonl")
        rows = whole_rows(logger) if logger.is_file() else []
        kept = [row["samples"] for row in rows if isinstance(row.get("samples"), list)]
        found = [str(each["source"]) for some in kept for each in some if "source" in each]
    once = list(dict.fromkeys(found))[:MOST]
    if not once:
        where = source or f"{loaded.folder.path / 'metrics.jsonl'}"
        raise RegardError(f"{where} has no sentences to check the export with; give some with --source FILE")
    return once
