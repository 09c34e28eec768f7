"""A BERT or a GPT that labels exported, and whether it says what the run says: both get the same texts."""

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
from regard.tasks.classification.task import encode_texts
from regard.tasks.encoder.model import Encoder, sides
from regard.tasks.encoder.run_folder import embed_settings, text_spec_of
from regard.tasks.export_card import reader_card
from regard.tasks.export_check import MOST, Check
from regard.tasks.exporting import refuse_fewer_tokens, write_beside
from regard.tasks.formats import Format
from regard.tasks.spec import ExportOptions

Texts = list[str | tuple[str, str]]
Says = Callable[[Tensor, Tensor], Tensor]

SAID: dict[Head, str] = {"classes": "labels", "tags": "tags", "span": "answers", "pretraining": "words"}
"""What is counted where it is the same."""


def export(loaded: Encoder, options: ExportOptions) -> Check:
    """Write a BERT with any head, or a GPT that labels, and give both the same texts."""
    recipe, body, to, folder = loaded.recipe, loaded.body, options.format, options.folder
    refuse_fewer_tokens(loaded.folder.path, getattr(body, "reduction", None))
    texts = texts_of(loaded, options.source)
    if to == "onnx":
        onnx.write_encoder(loaded.model, folder)
        write_beside(folder, recipe, loaded.labels, loaded.tokenizer)
    elif to == "huggingface" and isinstance(recipe.model, BertConfig):
        embed = getattr(recipe, "embed", None)
        head = text_spec_of(recipe).head
        huggingface_bert.write(folder, loaded.model, recipe.model, head, loaded.labels, loaded.tokenizer, embed)
    else:
        allowed = "onnx or huggingface" if isinstance(recipe.model, BertConfig) else "onnx"
        raise RegardError(
            f"{loaded.folder.path} holds {recipe.model}; it can be exported to {allowed}, not {to}"
        )
    found = read_the_same(loaded, to, folder, texts)
    storage.write_text(folder / "README.md", reader_card(recipe.task, recipe.model, to, found))
    return found


def texts_of(loaded: Encoder, source: str | Path | None) -> Texts:
    """Texts to check with: lines of a file, a tab between the two of a pair, or some of the run's own."""
    if source is not None:
        lines = [line.partition("\t") for line in read_lines(Path(source)) if line.strip()]
        found: Texts = [(one, other) if tab else one for one, tab, other in lines]
    else:
        found = list(loaded.own_texts(MOST))
    if not found:
        where = source or loaded.folder.path
        raise RegardError(f"{where} has no texts to check the export with; give some with --source FILE")
    return found[:MOST]


def read_the_same(loaded: Encoder, to: Format, folder: Path, texts: Texts) -> Check:
    """The model and the export side by side, texts cut as the model cuts them."""
    head = text_spec_of(loaded.recipe).head
    one, other = sides(texts)
    examples, _ = encode_texts(loaded.tokenizer, one, other, loaded.max_length)
    counted: dict[str, int] = {}
    theirs: Says
    if to == "onnx":
        theirs = reader = onnx.OnnxEncoder(folder)
        name = reader.name
    elif transformers_models.is_installed():
        pooling = embed_settings(loaded.recipe).pooling
        theirs = opened = transformers_models.TransformersBert(
            folder, huggingface_bert.ARCHITECTURES[head], pooling
        )
        name = opened.name
        told = [opened.ids(*each) for each in zip(one, other, strict=True)]
        counted["tokens"] = sum(same_ids(*each, loaded.max_length) for each in zip(examples, told, strict=True))
    else:
        model = cast(BertLike, huggingface_bert.read(folder).model.eval())
        name, theirs = transformers_models.FALLBACK_NAME, partial(bert_outputs, model)
    same, apart = compared(loaded, head, examples, theirs)
    if head in SAID:
        counted = {SAID[head]: same, **counted}
    return Check(name, len(texts), counted, "scores" if head in SAID else "vectors", apart)


def same_ids(example: Example, told: Sequence[int], max_length: int) -> bool:
    """Whether their tokenizer cuts a text as ours does; of a long one, its beginning."""
    ours: list[int] = example.ids.tolist()
    if len(told) > max_length:
        ours, told = ours[: max_length // 3], told[: max_length // 3]
    return ours == list(told)


@torch.inference_mode()
def compared(loaded: Encoder, head: Head, examples: Sequence[Example], theirs: Says) -> tuple[int, float]:
    """For how many texts both say the same, and the largest difference of what they say, padding left out."""
    device, padding = next(loaded.model.parameters()).device, loaded.tokenizer.padding
    same, apart = 0, 0.0
    for batch in all_batches(examples, 2048):
        ids, segments = batch.ids.padded(padding), batch.ids.like(batch.segments).padded(0)
        real = batch.ids.nonpad
        ours = ours_to(loaded, ids.to(device), segments.to(device)).float().cpu()
        others = theirs(ids, segments)
        if head in ("tags", "pretraining"):
            real, alike = real.unsqueeze(-1), (ours.argmax(-1) == others.argmax(-1)) | ~real
        elif head == "span":
            real = real.unsqueeze(1).expand_as(ours)
            alike = ours.argmax(-1) == others.masked_fill(~real, -torch.inf).argmax(-1)
        else:
            real, alike = (
                torch.ones_like(ours, dtype=torch.bool),
                (ours.argmax(-1) == others.argmax(-1)).view(-1, 1),
            )
        same += int(alike.all(-1).sum())
        apart = max(apart, float((ours - others).abs().masked_fill(~real, 0).max()))
    return same, apart


def ours_to(loaded: Encoder, ids: Tensor, segments: Tensor) -> Tensor:
    """What the run's own model says; one that is pre-trained is asked for every word."""
    if isinstance(loaded.model, BertPretrainer):
        return bert_outputs(loaded.model, ids, segments)
    return cast(Tensor, loaded.model(ids, segments))
