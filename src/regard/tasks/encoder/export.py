"""Export of a BERT or a GPT that labels, checked by comparing its outputs with the run's on the same texts."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from regard import storage
from regard.config.models import BertConfig
from regard.data.corpus import read_lines
from regard.data.examples import Example, all_batches
from regard.errors import RegardError
from regard.interop import huggingface_bert, onnx, transformers_models
from regard.interop.onnx_graphs import BertLike, bert_outputs
from regard.nn.bert import BertPretrainer
from regard.nn.build import Head
from regard.tasks.encoder.examples import Texts, encode_texts, split_pairs
from regard.tasks.encoder.model import Encoder
from regard.tasks.encoder.run_folder import embed_config, text_spec_of
from regard.tasks.export import (
    MAX_CHECK_INPUTS,
    ExportCheck,
    Format,
    refuse_token_reduction,
    write_onnx_metadata,
)
from regard.tasks.export_card import encoder_export_card
from regard.tasks.spec import ExportOptions

Outputs = Callable[[Tensor, Tensor], Tensor]
"""A model's outputs from ids and segments, (batch, length) each."""

COMPARED: dict[Head, str] = {"classes": "labels", "tags": "tags", "span": "answers", "pretraining": "words"}
"""The predictions that are compared, by head; an encoder's vectors have only a largest difference."""


def export(loaded: Encoder, options: ExportOptions) -> ExportCheck:
    """Write a BERT with any head, or a GPT that labels, and compare it with the run."""
    recipe, to, folder = loaded.recipe, options.format, options.folder
    refuse_token_reduction(loaded.folder.path, getattr(loaded.body, "reduction", None))
    texts = texts_for_check(loaded, options.source)
    if to == "onnx":
        onnx.write_encoder(loaded.model, folder)
        write_onnx_metadata(folder, recipe, loaded.labels, loaded.tokenizer)
    elif to == "huggingface" and isinstance(recipe.model, BertConfig):
        embed = getattr(recipe, "embed", None)
        head = text_spec_of(recipe).head
        huggingface_bert.write(folder, loaded.model, recipe.model, head, loaded.labels, loaded.tokenizer, embed)
    else:
        allowed = "onnx or huggingface" if isinstance(recipe.model, BertConfig) else "onnx"
        raise RegardError(
            f"{loaded.folder.path} holds {recipe.model}; it can be exported to {allowed}, not {to}"
        )
    check = check_export(loaded, to, folder, texts)
    storage.write_text(folder / "README.md", encoder_export_card(recipe, to, check))
    return check


def texts_for_check(loaded: Encoder, source: str | Path | None) -> Texts:
    """The lines of a file, with a tab between the texts of a pair; by default texts of the run's data."""
    texts: Texts
    if source is not None:
        lines = [line.partition("\t") for line in read_lines(Path(source)) if line.strip()]
        texts = [(first, second) if tab else first for first, tab, second in lines]
    else:
        texts = loaded.own_texts(MAX_CHECK_INPUTS)
    if not texts:
        where = source or loaded.folder.path
        raise RegardError(f"{where} has no texts to check the export with; give some with --source FILE")
    return texts[:MAX_CHECK_INPUTS]


def check_export(loaded: Encoder, to: Format, folder: Path, texts: Texts) -> ExportCheck:
    """Compare the run with its export, on texts truncated as by the run."""
    head = text_spec_of(loaded.recipe).head
    first, second = split_pairs(texts)
    examples, _ = encode_texts(loaded.tokenizer, first, second, loaded.max_length)
    tokens: dict[str, int] = {}
    exported: Outputs
    if to == "onnx":
        exported = reader = onnx.OnnxEncoder(folder)
        name = reader.name
    elif transformers_models.is_installed():
        pooling = embed_config(loaded.recipe).pooling
        exported = opened = transformers_models.TransformersBert(
            folder, huggingface_bert.ARCHITECTURES[head], pooling
        )
        name = opened.name
        exported_ids = [opened.ids(*pair) for pair in zip(first, second, strict=True)]
        tokens["tokens"] = sum(
            same_ids(example, ids, loaded.max_length)
            for example, ids in zip(examples, exported_ids, strict=True)
        )
    else:
        model = cast(BertLike, huggingface_bert.read(folder).model.eval())
        name, exported = transformers_models.FALLBACK_NAME, partial(bert_outputs, model)
    same, difference = compare_outputs(loaded, head, examples, exported)
    counts = {COMPARED[head]: same, **tokens} if head in COMPARED else tokens
    return ExportCheck(name, len(texts), counts, "scores" if head in COMPARED else "vectors", difference)


def same_ids(example: Example, exported_ids: Sequence[int], max_length: int) -> bool:
    """Whether the exported tokenizer gives the same ids; of a truncated text only the start is compared."""
    ids: list[int] = example.ids.tolist()
    if len(exported_ids) > max_length:
        ids, exported_ids = ids[: max_length // 3], exported_ids[: max_length // 3]
    return ids == list(exported_ids)


@torch.inference_mode()
def compare_outputs(
    loaded: Encoder, head: Head, examples: Sequence[Example], exported: Outputs
) -> tuple[int, float]:
    """The number of texts with identical predictions, and the largest difference of outputs at non-padding."""
    device, padding = next(loaded.model.parameters()).device, loaded.tokenizer.padding
    same, largest = 0, 0.0
    for batch in all_batches(examples, 2048):
        ids, segments = batch.ids.padded(padding), batch.ids.like(batch.segments).padded(0)
        nonpad = batch.ids.nonpad
        ours = run_outputs(loaded, ids.to(device), segments.to(device)).float().cpu()
        theirs = exported(ids, segments)
        if head in ("tags", "pretraining"):
            nonpad, identical = nonpad.unsqueeze(-1), (ours.argmax(-1) == theirs.argmax(-1)) | ~nonpad
        elif head == "span":
            nonpad = nonpad.unsqueeze(1).expand_as(ours)
            identical = ours.argmax(-1) == theirs.masked_fill(~nonpad, -torch.inf).argmax(-1)
        else:
            nonpad = torch.ones_like(ours, dtype=torch.bool)
            identical = (ours.argmax(-1) == theirs.argmax(-1)).view(-1, 1)
        same += int(identical.all(-1).sum())
        largest = max(largest, float((ours - theirs).abs().masked_fill(~nonpad, 0).max()))
    return same, largest


def run_outputs(loaded: Encoder, ids: Tensor, segments: Tensor) -> Tensor:
    """The outputs of the run's own model; a pre-trained one gives a score for every word of the vocabulary."""
    if isinstance(loaded.model, BertPretrainer):
        return bert_outputs(loaded.model, ids, segments)
    return cast(Tensor, loaded.model(ids, segments))
