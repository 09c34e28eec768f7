"""Training objectives: the loss of a batch for each kind of model, summed over its targets."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batches import Batch
from regard.data.examples import IGNORE_INDEX, TextBatch
from regard.data.prompted_images import PromptedImageBatch
from regard.engine.forward import (
    Inputs,
    gpt_hidden,
    is_modified,
    last_tokens,
    padded_inputs,
    run,
    run_tokens,
    seq2seq_hidden,
)
from regard.engine.loss import linear_cross_entropy
from regard.engine.token_loss import language_model_loss, translation_loss
from regard.nn import Packed
from regard.nn.noise import NoiseSchedule
from regard.nn.seq2seq import Seq2SeqModel, Trainable
from regard.nn.unet import Unet


def smoothed_targets(labels: Tensor, vocabulary: int, smoothing: float, padding: int) -> Tensor:
    """The target distribution of label smoothing: labels (...) -> (..., vocabulary).

    1 - e for the label, e / (V - 2) for the others, 0 for padding; all zeros where the label is padding.
    """
    if vocabulary < 3:
        raise ValueError(f"vocabulary: {vocabulary} is too small for label smoothing; at least 3 is needed")
    target = torch.full((*labels.shape, vocabulary), smoothing / (vocabulary - 2), device=labels.device)
    target.scatter_(-1, labels.unsqueeze(-1), 1.0 - smoothing)
    target[..., padding] = 0.0
    return target.masked_fill((labels == padding).unsqueeze(-1), 0.0)


class SmoothedKL(nn.Module):
    """KL divergence from the smoothed targets to the model, summed over the labels that are not padding.

    The reference implementation; it materializes a vocabulary-wide target per token.
    """

    def __init__(self, vocabulary: int, padding: int, smoothing: float = 0.1) -> None:
        super().__init__()
        self.vocabulary, self.padding, self.smoothing = vocabulary, padding, smoothing

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """logits (..., vocabulary), labels (...) -> scalar."""
        target = smoothed_targets(labels, self.vocabulary, self.smoothing, self.padding).to(logits.dtype)
        log_probability = torch.log_softmax(logits, dim=-1)
        # xlogy: a target of 0 adds nothing, so the divergence stays finite without smoothing.
        return (torch.xlogy(target, target) - target * log_probability).sum()


class TaskObjective:
    """A model with the number type of its matrix products; subclasses compute the loss of a batch."""

    def __init__(self, model: nn.Module, precision: torch.dtype = torch.float32) -> None:
        self.model, self.precision = model, precision
        self.device = next(model.parameters()).device

    def autocast(self) -> AbstractContextManager[object]:
        """Mixed precision with `precision`; nothing for float32."""
        if self.precision == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.precision)


class Seq2SeqObjective(TaskObjective):
    """Label-smoothed KL divergence of sentence pairs, optionally with R-Drop (Liang et al. 2021).

    Args:
        model: An encoder-decoder model.
        padding: Id of the padding in the target vocabulary.
        smoothing: Label smoothing.
        r_drop: Weight of the divergence between two passes with different dropout; 0 means one pass.
        precision: Number type of the matrix products.
    """

    def __init__(
        self,
        model: nn.Module,
        padding: int,
        smoothing: float,
        r_drop: float = 0.0,
        precision: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(model, precision)
        self.padding, self.smoothing, self.r_drop = padding, smoothing, r_drop

    def __call__(self, batch: Batch) -> Tensor:
        batch = batch.to(self.device)
        source, target, labels = batch.source, batch.target, batch.labels.values
        fused = self.fused(source, target, labels)
        if fused is not None:
            return fused
        if self.r_drop:  # both passes in one batch, each with its own dropout
            source, target = source.twice(), target.twice()
        with self.autocast():
            hidden = seq2seq_hidden(self.model, source, target).values
        return self.loss(hidden.float(), labels)

    def fused(self, source: Packed, target: Packed, labels: Tensor) -> Tensor | None:
        """The loss with its gradient in one native call; None where the model is not supported."""
        if self.precision != torch.float32:
            return None
        return translation_loss(
            self.model,
            source,
            target,
            labels,
            padding=self.padding,
            smoothing=self.smoothing,
            r_drop=self.r_drop,
        )

    def loss(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Hidden states (tokens, width), twice as many with R-Drop, and labels (tokens,) -> scalar."""
        if isinstance(self.model, Seq2SeqModel) and type(self.model).scores is not Seq2SeqModel.scores:
            return self.loss_of_scores(self.model.scores(hidden), labels)
        weight, bias = cast(Trainable, self.model).output
        return linear_cross_entropy(
            hidden, weight, bias, labels, padding=self.padding, smoothing=self.smoothing, r_drop=self.r_drop
        )

    def loss_of_scores(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The same loss from scores (tokens, vocabulary), for a model that overrides `scores`."""
        divergence = SmoothedKL(scores.size(-1), self.padding, self.smoothing)
        if not self.r_drop:
            return cast(Tensor, divergence(scores, labels))
        first, second = scores.chunk(2)
        p, q = torch.log_softmax(first, -1), torch.log_softmax(second, -1)
        symmetric_kl = ((p.exp() - q.exp()) * (p - q)).sum()
        smoothed_kl = divergence(first, labels) + divergence(second, labels)
        return cast(Tensor, (smoothed_kl + self.r_drop * symmetric_kl) / 2)


class HeadObjective(TaskObjective):
    """The loss of the head on top of a BERT, a GPT or a Vision Transformer; subclasses define `loss`."""

    def __init__(
        self, model: nn.Module, smoothing: float = 0.0, precision: torch.dtype = torch.float32
    ) -> None:
        super().__init__(model, precision)
        self.smoothing = smoothing

    def __call__(self, batch: Any) -> Tensor:
        batch = batch.to(self.device)
        with self.autocast():
            return self.loss(batch)

    def loss(self, batch: Any) -> Tensor:
        raise NotImplementedError


class ClassObjective(HeadObjective):
    """Cross-entropy of one label per text."""

    def loss(self, batch: Any) -> Tensor:
        return self.class_loss(batch.labels[:, 0], batch.ids, batch.segments)

    def class_loss(self, labels: Tensor, *inputs: Inputs) -> Tensor:
        """Cross-entropy, plus the penalty on kept tokens where the model learns pruning thresholds."""
        model, penalty = cast(Any, self.model), None
        if model.learns_to_prune:
            scores, penalty = model.soft_pruned(*padded_inputs(model, *inputs))
        else:
            scores = run(model, *inputs)
        loss = functional.cross_entropy(scores.float(), labels, reduction="sum", label_smoothing=self.smoothing)
        return loss if penalty is None else loss + penalty * len(labels)


class ImageObjective(ClassObjective):
    """Cross-entropy of one label per image."""

    def loss(self, batch: Any) -> Tensor:
        return self.class_loss(batch.labels, batch.pixels)


class TagObjective(HeadObjective):
    """Cross-entropy of the tag of each word's first subword."""

    def loss(self, batch: TextBatch) -> Tensor:
        scores = run_tokens(self.model, batch.ids, batch.segments).values.float()
        return functional.cross_entropy(
            scores,
            batch.token_labels,
            reduction="sum",
            ignore_index=IGNORE_INDEX,
            label_smoothing=self.smoothing,
        )


class SpanObjective(HeadObjective):
    """Mean of the cross-entropies of the start and the end of the answer span."""

    def loss(self, batch: TextBatch) -> Tensor:
        scores = run(self.model, batch.ids, batch.segments).float()
        return functional.cross_entropy(scores.flatten(0, 1), batch.labels.flatten(), reduction="sum") / 2


class PretrainingObjective(HeadObjective):
    """BERT pre-training: mean masked-token loss plus mean next-sentence loss, scaled to the masked tokens.

    The loss is summed over the masked tokens; so the next-sentence term is scaled by masked tokens per text.
    """

    def loss(self, batch: TextBatch) -> Tensor:
        masked_token_loss, next_sentence_loss = self.parts(batch)
        return masked_token_loss + next_sentence_loss * (batch.num_targets / batch.texts)

    def parts(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """Masked-token loss and next-sentence loss, each summed over its own targets."""
        positions = (batch.token_labels != IGNORE_INDEX).nonzero().squeeze(1)
        hidden, scores = run(self.model, batch.ids, batch.segments, positions)
        weight, bias = cast(Any, self.model).output
        masked_token_loss = linear_cross_entropy(
            hidden.float(), weight, bias, batch.token_labels.index_select(0, positions)
        )
        next_sentence_loss = functional.cross_entropy(
            scores.float(), batch.labels[:, 0], reduction="sum", ignore_index=IGNORE_INDEX
        )
        return masked_token_loss, next_sentence_loss


class LanguageObjective(HeadObjective):
    """Cross-entropy of the next token at each position."""

    def loss(self, batch: TextBatch) -> Tensor:
        if is_modified(self.model):  # hooks only run where the model itself is called
            scores = run_tokens(self.model, batch.ids).values.float()
            return functional.cross_entropy(scores, batch.token_labels, reduction="sum")
        if self.precision == torch.float32:
            loss = language_model_loss(self.model, batch.ids, batch.token_labels)
            if loss is not None:
                return loss
        hidden = gpt_hidden(cast(Any, self.model).gpt, batch.ids)
        return next_token_loss(self.model, hidden.values, batch.token_labels)


class GptClassObjective(ClassObjective):
    """Cross-entropy of one label per text, plus an auxiliary language modeling loss (Radford et al. 2018).

    Args:
        language: Weight of the mean next-token loss over the text's own tokens.
    """

    def __init__(
        self,
        model: nn.Module,
        smoothing: float = 0.0,
        precision: torch.dtype = torch.float32,
        *,
        language: float = 0.0,
    ) -> None:
        super().__init__(model, smoothing, precision)
        self.language = language

    def loss(self, batch: TextBatch) -> Tensor:
        model = cast(Any, self.model)
        hidden = gpt_hidden(model.gpt, batch.ids)
        scores = run(model, batch.ids) if is_modified(model) else model.classify(last_tokens(hidden))
        label_loss = functional.cross_entropy(
            scores.float(), batch.labels[:, 0], reduction="sum", label_smoothing=self.smoothing
        )
        # The last token of a text has no next token; the special tokens between texts are not predicted.
        ends = batch.ids.offsets[1:].long() - 1
        next_tokens = batch.ids.values.roll(-1).index_fill(0, ends, model.gpt.padding)
        vocabulary = model.gpt.token_embedding.num_embeddings
        positions = ((next_tokens >= 0) & (next_tokens < vocabulary)).nonzero().squeeze(1)
        if not self.language or not len(positions):
            return label_loss
        language_loss = next_token_loss(
            model, hidden.values.index_select(0, positions), next_tokens.index_select(0, positions)
        )
        # Scaled to the number of texts, over which the label loss is summed.
        return label_loss + self.language * language_loss * (batch.rows / len(positions))


def next_token_loss(model: nn.Module, hidden: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy from hidden states (tokens, d_model) and labels (tokens,), with tied embeddings."""
    return linear_cross_entropy(hidden.float(), cast(Any, model).gpt.token_embedding.weight, None, labels)


class NoiseObjective(TaskObjective):
    """Mean squared error of the predicted noise, summed over the images of a batch.

    Each image gets noise of a random timestep. With `max_snr`, timesteps with a higher signal-to-noise
    ratio get a lower weight: min-SNR weighting (Hang et al. 2023).
    """

    def __init__(self, model: Unet, max_snr: float = 0.0, precision: torch.dtype = torch.float32) -> None:
        super().__init__(model, precision)
        self.noise = model.noise
        self.weights = timestep_weights(model.noise, max_snr).to(self.device)

    def __call__(self, batch: PromptedImageBatch) -> Tensor:
        batch = batch.to(self.device)
        times = stratified_timesteps(len(batch.images), self.noise.steps).to(self.device)
        return self.loss(batch, times, torch.randn_like(batch.images))

    def loss(self, batch: PromptedImageBatch, times: Tensor, noise: Tensor) -> Tensor:
        """The loss for timesteps (batch,) and noise of the images' shape."""
        model = cast(Unet, self.model)
        noised = self.noise.add_noise(batch.images, times, noise)
        with self.autocast():
            predicted = model(noised, times, model.encode_prompt(batch.prompts)).float()
        errors = (predicted - noise).square().flatten(1).mean(1)
        return cast(Tensor, (errors * self.weights[times]).sum())


def timestep_weights(noise: NoiseSchedule, max_snr: float) -> Tensor:
    """Min-SNR weight of each timestep: min(SNR, max_snr) / SNR; all ones where `max_snr` is 0."""
    ratio = noise.snr(torch.arange(noise.steps))
    return ratio.clamp(max=max_snr) / ratio if max_snr else torch.ones_like(ratio)


def stratified_timesteps(count: int, steps: int) -> Tensor:
    """Evenly spaced timesteps from a random start: lower variance than independent ones."""
    positions = (torch.rand(()) + torch.arange(count) / max(1, count)) % 1
    return (positions * steps).long().clamp(max=steps - 1)
