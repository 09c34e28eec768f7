"""Export of a translation model, checked by translating the same sentences with the run and the export."""

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
from regard.interop import huggingface_marian, transformers_models
from regard.tasks.export import MAX_CHECK_INPUTS, ExportCheck, Format
from regard.tasks.export_card import translation_export_card
from regard.tasks.metrics_log import read_complete_rows
from regard.tasks.spec import ExportOptions
from regard.tasks.translation.exported_translator import ExportedTranslator, write_export
from regard.tasks.translation.model import Translator


def export(loaded: Translator, options: ExportOptions) -> ExportCheck:
    """Write the model and its vocabulary, and compare translations of the run and of the export."""
    sentences = sentences_of(loaded, options.source)
    write_export(loaded, options.format, options.folder, options.quantization)
    check = compare(loaded, options.format, options.folder, sentences)
    storage.write_text(
        options.folder / "README.md", translation_export_card(loaded.recipe, options.format, check)
    )
    return check


def compare(loaded: Translator, to: Format, folder: Path, sentences: Sequence[str]) -> ExportCheck:
    """Compare greedy and beam translations of run and export, and scores where the texts are equal."""
    if to == "huggingface":
        return compare_with_transformers(loaded, folder, sentences)
    engine = ExportedTranslator(folder, to)
    beam = wider_beam(loaded)
    same: list[int] = []
    max_difference = 0.0
    for options in (loaded.options(1), loaded.options(beam)):
        pairs = zip(
            translated(loaded.pipeline, sentences, options),
            translated(engine.pipeline, sentences, options),
            strict=True,
        )
        differences = [abs(ours.score - theirs.score) for ours, theirs in pairs if ours.text == theirs.text]
        same.append(len(differences))
        max_difference = max([max_difference, *differences])
    compared = "scores where the text is the same"
    return ExportCheck(engine.name, len(sentences), by_search(beam, same), compared, max_difference)


def compare_with_transformers(loaded: Translator, folder: Path, sentences: Sequence[str]) -> ExportCheck:
    """Compare translations and logits with those of `transformers`, or if it is missing, of regard."""
    beam = wider_beam(loaded)
    ours = [texts(loaded, loaded.pipeline, sentences, size) for size in (1, beam)]
    logits: Callable[[Tensor, Tensor], Tensor]
    if transformers_models.is_installed():
        opened = transformers_models.TransformersTranslator(folder)
        name, logits = opened.name, opened.logits
        theirs = [opened.translate(sentences, size) for size in (1, beam)]
    else:
        model = huggingface_marian.read(folder).model
        name, logits = transformers_models.FALLBACK_NAME, model
        vocabulary, max_length = loaded.vocabulary, loaded.recipe.model.max_length
        pipeline = TranslationPipeline(model, vocabulary.source, vocabulary.target, max_length)
        theirs = [texts(loaded, pipeline, sentences, size) for size in (1, beam)]
    same = [sum(map(operator.eq, *both)) for both in zip(ours, theirs, strict=True)]
    max_difference = max_logit_difference(loaded, logits, sentences, ours[0])
    return ExportCheck(name, len(sentences), by_search(beam, same), "logits", max_difference)


def by_search(beam: int, same: Sequence[int]) -> dict[str, int]:
    return {"greedy": same[0], f"beam {beam}": same[1]}


def wider_beam(loaded: Translator) -> int:
    """The recipe's beam size, at least 2."""
    return max(2, loaded.recipe.decode.beam)


def texts(loaded: Translator, pipeline: TranslationPipeline, sentences: Sequence[str], beam: int) -> list[str]:
    return [translation.text for translation in translated(pipeline, sentences, loaded.options(beam))]


@torch.inference_mode()
def max_logit_difference(
    loaded: Translator,
    theirs: Callable[[Tensor, Tensor], Tensor],
    sources: Sequence[str],
    targets: Sequence[str],
) -> float:
    """The largest difference of two models' logits over sentence pairs, without padding."""
    pairs = loaded.vocabulary.encode_pairs(list(zip(sources, targets, strict=True)))
    largest = 0.0
    for batch in Batches.of_pairs(pairs, 2048, loaded.recipe.model.max_length):
        source = batch.source.padded(loaded.vocabulary.source.padding)
        target = batch.target.padded(loaded.vocabulary.target.padding)
        device = loaded.pipeline.device
        difference = loaded.model(source.to(device), target.to(device)).cpu() - theirs(source, target)
        largest = max(largest, float(batch.target.repacked(difference).values.abs().max()))
    return largest


def translated(
    pipeline: TranslationPipeline, sentences: Sequence[str], options: BeamSearchConfig
) -> list[Translation]:
    return pipeline.translate(sentences, options, long="cut", warn=lambda message: None)


def sentences_of(loaded: Translator, source: str | Path | None) -> list[str]:
    """Sentences for the check: those of a file, or the validation samples of the run."""
    if source is not None:
        sentences = [line for line in read_lines(Path(source)) if line.strip()]
    else:
        metrics = loaded.folder.file("metrics.jsonl")
        rows = read_complete_rows(metrics) if metrics.is_file() else []
        validations = [row["samples"] for row in rows if isinstance(row.get("samples"), list)]
        sentences = [
            str(sample["source"]) for samples in validations for sample in samples if "source" in sample
        ]
    unique = list(dict.fromkeys(sentences))[:MAX_CHECK_INPUTS]
    if not unique:
        where = source or f"{loaded.folder.path / 'metrics.jsonl'}"
        raise RegardError(f"{where} has no sentences to check the export with; use --source FILE")
    return unique
