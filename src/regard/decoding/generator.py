"""Text generation from prompts: sampled and streamed piece by piece, or by beam search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from regard.decoding.beam_search import BeamSearchConfig, search
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.sampling import Sampler, SamplingConfig
from regard.decoding.translator import batches_of_equal_length
from regard.engine.generate import native_gpt
from regard.errors import RegardError
from regard.limits import MAX_BATCH_SIZE, MAX_BEAM, MAX_SAMPLES, MAX_TOKENS, check_range
from regard.nn.seq2seq import Decodable
from regard.tokenization import CharacterTokenizer, Tokenizer

REPLACEMENT_CHARACTER = "\ufffd"
"""What an incomplete UTF-8 sequence decodes to."""


@dataclass(frozen=True)
class GenerationConfig:
    """Settings of text generation."""

    tokens: int = 200
    """Maximum number of new tokens."""
    sampling: SamplingConfig = field(default_factory=lambda: SamplingConfig(1))
    """How tokens are sampled: the same prompt with the same seed gives the same text."""
    beam: int = 0
    """Beam size of a search for the most likely text; 0 means sampling."""
    repetition: float = 1.0
    """Repetition penalty: above 1, earlier tokens become less likely."""
    stop: tuple[str, ...] = ()
    """Stop strings: the text ends before the first of these."""
    batch_size: int = 32

    def __post_init__(self) -> None:
        check_range("tokens", self.tokens, 1, MAX_TOKENS)
        check_range("beam", self.beam, 0, MAX_BEAM)
        check_range("batch_size", self.batch_size, 1, MAX_BATCH_SIZE)
        if self.repetition <= 0:
            raise RegardError(f"repetition: {self.repetition:g} is out of range; allowed is above 0")
        if "" in self.stop:
            raise RegardError("stop: a stop string is empty; give at least one character")


@dataclass(frozen=True)
class Completion:
    """A generated text, and why it ends: end (end token), stop (stop string) or length."""

    prompt: str
    text: str
    tokens: int
    why: str


class Generator:
    """Text generation with a language model.

    Args:
        model: A decoder-only model or an n-gram model.
        tokenizer: The model's tokenizer.
        max_length: The model's context window in tokens; None where it has none.
        device: Where the model is.
    """

    def __init__(
        self, model: nn.Module, tokenizer: Tokenizer, max_length: int | None, device: torch.device
    ) -> None:
        self.module = model
        self.tokenizer, self.max_length, self.device = tokenizer, max_length, device

    def complete(self, prompts: Sequence[str], config: GenerationConfig) -> list[Completion]:
        """One completion per prompt; the result does not depend on the other prompts."""
        completions = {
            number: completion
            for number, _, completion in self.stream_batch(prompts, config)
            if completion is not None
        }
        return [completions[number] for number in range(len(prompts))]

    def stream(self, prompt: str, config: GenerationConfig) -> Iterator[str]:
        """The same text piece by piece, as it is generated."""
        return (piece for _, piece, _ in self.stream_batch([prompt], config) if piece)

    @torch.inference_mode()
    def stream_batch(
        self, prompts: Sequence[str], config: GenerationConfig
    ) -> Iterator[tuple[int, str, Completion | None]]:
        """Yield the index of a prompt, a piece of its text, and with its last piece the completion.

        Raises:
            RegardError: A prompt is empty or too long, or a prompt or stop string is outside the vocabulary.
        """
        encoded = self.encode_prompts(prompts)
        self.check_stop_strings(config)
        model: Decodable = native_gpt(self.module) or self.module  # type: ignore[assignment]  # has `start`, `step`
        for numbers in batches_of_equal_length(encoded, config.batch_size):
            source = torch.tensor([encoded[number] for number in numbers], device=self.device)
            texts = [IncrementalDetokenizer(prompts[number], self.tokenizer, config) for number in numbers]
            stream = self._stream_search if config.beam else self._stream_samples
            for index, piece, completion in stream(model, source, texts, config):
                yield numbers[index], piece, completion

    def _stream_samples(
        self,
        model: Decodable,
        source: torch.Tensor,
        texts: list["IncrementalDetokenizer"],
        config: GenerationConfig,
    ) -> Iterator[tuple[int, str, Completion | None]]:
        seeds = [config.sampling.seed] * len(texts)
        sampler = Sampler(model, source, self._constraints(config), config.sampling, seeds)
        active = list(range(len(texts)))
        while active:
            tokens, _ = sampler.step()
            for index, token in zip(active, tokens.tolist(), strict=True):
                piece = texts[index].add(token)
                yield index, piece, texts[index].completion
            open_rows = [row for row, index in enumerate(active) if texts[index].completion is None]
            if open_rows and len(open_rows) < len(active):
                sampler.select(open_rows)
            active = [active[row] for row in open_rows]

    def _stream_search(
        self,
        model: Decodable,
        source: torch.Tensor,
        texts: list["IncrementalDetokenizer"],
        config: GenerationConfig,
    ) -> Iterator[tuple[int, str, Completion | None]]:
        """Beam search has its result only at the end: one piece."""
        options = BeamSearchConfig(beam=config.beam, max_length=config.tokens)
        for index, [best, *_] in enumerate(search(model, source, self._constraints(config), options)):
            text = texts[index]
            ids = (*best.ids, self.tokenizer.end)
            pieces = [text.add(token) for token in ids if text.completion is None]
            yield index, "".join(pieces), text.completion

    def _constraints(self, config: GenerationConfig) -> DecodingConstraints:
        tokenizer = self.tokenizer
        suppressed: tuple[int, ...] = ()
        if isinstance(tokenizer, CharacterTokenizer):  # its training text has no special tokens and no end
            suppressed = (tokenizer.begin, tokenizer.end, tokenizer.padding, tokenizer.unknown)
        return DecodingConstraints(
            None, tokenizer.end, suppressed, max_length=config.tokens, repetition=config.repetition
        )

    def encode_prompts(self, prompts: Sequence[str]) -> list[list[int]]:
        """The ids of prompts.

        Raises:
            RegardError: A prompt is empty, too long, or has a character outside the vocabulary.
        """
        encoded = self.tokenizer.encode_batch(prompts)
        for number, (prompt, ids) in enumerate(zip(prompts, encoded, strict=True), start=1):
            subject = f"prompt {number}" if len(prompts) > 1 else "the prompt"
            if not ids:
                raise RegardError(f"{subject} is empty; give at least one token to continue from")
            if unseen := self._unknown_character(prompt):
                raise RegardError(
                    f"{subject} has {unseen!r}, a character that is not in the model's vocabulary"
                )
            if self.max_length is not None and len(ids) > self.max_length:
                raise RegardError(
                    f"{subject} has {len(ids)} tokens, more than the model's window of {self.max_length}; "
                    "give only its end"
                )
        return encoded

    def check_stop_strings(self, config: GenerationConfig) -> None:
        """Refuse a stop string that the model cannot generate.

        Raises:
            RegardError: A stop string has a character outside the vocabulary.
        """
        for stop in config.stop:
            if unseen := self._unknown_character(stop):
                raise RegardError(
                    f"the stop string {stop!r} cannot occur: {unseen!r} is not in the model's vocabulary"
                )

    def _unknown_character(self, text: str) -> str | None:
        """The first character outside the vocabulary of a character model."""
        if not isinstance(self.tokenizer, CharacterTokenizer) or self.tokenizer.kind != "characters":
            return None
        return next((letter for letter in text if letter not in self.tokenizer.alphabet), None)


class IncrementalDetokenizer:
    """Turns tokens into text pieces as they arrive; holds back what later tokens may change.

    Held back are incomplete UTF-8 sequences and a possible beginning of a stop string.
    """

    def __init__(self, prompt: str, tokenizer: Tokenizer, config: GenerationConfig) -> None:
        self.prompt, self.tokenizer, self.config = prompt, tokenizer, config
        self.pending: list[int] = []  # tokens whose characters are incomplete
        self.held = ""  # characters that could be the beginning of a stop string
        self.pieces: list[str] = []
        self.tokens = 0
        self.completion: Completion | None = None

    def add(self, token: int) -> str:
        """Take a token; return the piece of text that is final now, possibly empty."""
        if token == self.tokenizer.end:
            return self._close("end")
        self.tokens += 1
        self.pending.append(token)
        characters = self.tokenizer.decode(self.pending)
        # A character has at most four bytes in UTF-8.
        if not characters.endswith(REPLACEMENT_CHARACTER) or len(self.pending) > 4:
            self.pending = []
            self.held += characters
            cut = min(
                (start for stop in self.config.stop if (start := self.held.find(stop)) >= 0), default=None
            )
            if cut is not None:
                self.held = self.held[:cut]
                return self._close("stop")
        if self.tokens == self.config.tokens:
            return self._close("length")
        final = len(self.held) - self._stop_prefix_length()
        piece, self.held = self.held[:final], self.held[final:]
        self.pieces.append(piece)
        return piece

    def _stop_prefix_length(self) -> int:
        """How many of the last characters could be the beginning of a stop string."""
        return max(
            (
                size
                for stop in self.config.stop
                for size in range(1, min(len(stop), len(self.held) + 1))
                if self.held.endswith(stop[:size])
            ),
            default=0,
        )

    def _close(self, why: str) -> str:
        """End the text: return what was held back and set the completion."""
        if why != "stop":
            self.held += self.tokenizer.decode(self.pending)
        piece, self.held = self.held, ""
        self.pieces.append(piece)
        self.completion = Completion(self.prompt, "".join(self.pieces), self.tokens, why)
        return piece


def with_following_seeds(config: GenerationConfig, count: int) -> list[GenerationConfig]:
    """The configuration `count` times with consecutive seeds; the first keeps its own."""
    check_range("samples", count, 1, MAX_SAMPLES)
    sampling = config.sampling
    return [replace(config, sampling=replace(sampling, seed=sampling.seed + number)) for number in range(count)]
