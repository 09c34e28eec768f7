"""Prompts in, what comes next out: drawn by chance and told piece by piece, or searched for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from regard.decoding.beam_search import BeamSearchConfig, search
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.sampling import Drawing, SamplingConfig
from regard.decoding.translator import same_length
from regard.engine.generate import native_gpt
from regard.errors import RegardError
from regard.limits import MAX_BATCH_SIZE, MAX_BEAM, MAX_SAMPLES, MAX_TOKENS, check_range
from regard.nn.seq2seq import Decodable
from regard.tokenization import CharacterTokenizer, Tokenizer

HALF = "\ufffd"
"""What the first bytes of a character are shown as, as long as the others are missing."""


@dataclass(frozen=True)
class GenerationConfig:
    """What to write, and how."""

    tokens: int = 200
    """The most tokens to write."""
    sampling: SamplingConfig = field(default_factory=lambda: SamplingConfig(1))
    """How it is drawn: texts with the same prompt and the same seed are the same."""
    beam: int = 0
    """So many texts kept open in a search for the likeliest; 0 means that it is drawn."""
    repetition: float = 1.0
    """Above 1: what was said before is less likely to be said again."""
    stop: tuple[str, ...] = ()
    """The text ends before the first of these."""
    batch_size: int = 32

    def __post_init__(self) -> None:
        check_range("tokens", self.tokens, 1, MAX_TOKENS)
        check_range("beam", self.beam, 0, MAX_BEAM)
        check_range("batch_size", self.batch_size, 1, MAX_BATCH_SIZE)
        if self.repetition <= 0:
            raise RegardError(f"a repetition penalty is above 0; given: {self.repetition:g}")
        if "" in self.stop:
            raise RegardError("a stop string is empty: the text would end before it begins")


@dataclass(frozen=True)
class Completion:
    """What was written after a prompt, and why it ends: end, stop or length."""

    prompt: str
    text: str
    tokens: int
    why: str


class Generator:
    """A model that goes on with a text; `max_length` is its window, None where it has none."""

    def __init__(
        self, model: nn.Module, tokenizer: Tokenizer, max_length: int | None, device: torch.device
    ) -> None:
        self.module = model
        self.tokenizer, self.max_length, self.device = tokenizer, max_length, device

    def write(self, prompts: Sequence[str], config: GenerationConfig) -> list[Completion]:
        """What comes after each prompt, the same as for each alone."""
        found = {number: whole for number, _, whole in self.events(prompts, config) if whole is not None}
        return [found[number] for number in range(len(prompts))]

    def stream(self, prompt: str, config: GenerationConfig) -> Iterator[str]:
        """The same text, piece by piece as it comes."""
        return (piece for _, piece, _ in self.events([prompt], config) if piece)

    @torch.inference_mode()
    def events(
        self, prompts: Sequence[str], config: GenerationConfig
    ) -> Iterator[tuple[int, str, Completion | None]]:
        """The number of a prompt, a piece of its text, and at last the whole."""
        encoded = self.encoded(prompts)
        self.check_stops(config)
        model: Decodable = native_gpt(self.module) or self.module  # type: ignore[assignment]  # has `start`, `step`
        for numbers in same_length(encoded, config.batch_size):
            source = torch.tensor([encoded[number] for number in numbers], device=self.device)
            texts = [Unfolding(prompts[number], self.tokenizer, config) for number in numbers]
            told = (self.searched if config.beam else self.drawn)(model, source, texts, config)
            for place, piece, whole in told:
                yield numbers[place], piece, whole

    def drawn(
        self, model: Decodable, source: torch.Tensor, texts: list["Unfolding"], config: GenerationConfig
    ) -> Iterator[tuple[int, str, Completion | None]]:
        seeds = [config.sampling.seed] * len(texts)
        drawing = Drawing(model, source, self.limits(config), config.sampling, seeds)
        going = list(range(len(texts)))
        while going:
            tokens, _ = drawing.step()
            for place, token in zip(going, tokens.tolist(), strict=True):
                piece = texts[place].add(token)
                yield place, piece, texts[place].whole
            kept = [row for row, place in enumerate(going) if texts[place].whole is None]
            if kept and len(kept) < len(going):
                drawing.keep(kept)
            going = [going[row] for row in kept]

    def searched(
        self, model: Decodable, source: torch.Tensor, texts: list["Unfolding"], config: GenerationConfig
    ) -> Iterator[tuple[int, str, Completion | None]]:
        """A search knows its text when it is done: one piece."""
        options = BeamSearchConfig(beam=config.beam, max_length=config.tokens)
        for place, found in enumerate(search(model, source, self.limits(config), options)):
            text = texts[place]
            ids = (*found[0].ids, self.tokenizer.end)
            pieces = [text.add(token) for token in ids if text.whole is None]
            yield place, "".join(pieces), text.whole

    def limits(self, config: GenerationConfig) -> DecodingConstraints:
        tokenizer = self.tokenizer
        never: tuple[int, ...] = ()
        if isinstance(tokenizer, CharacterTokenizer):  # text made of letters has no symbols in it, and no end
            never = (tokenizer.begin, tokenizer.end, tokenizer.padding, tokenizer.unknown)
        return DecodingConstraints(None, tokenizer.end, never, room=config.tokens, repetition=config.repetition)

    def encoded(self, prompts: Sequence[str]) -> list[list[int]]:
        """The ids of prompts; what a model cannot go on with is refused."""
        found = self.tokenizer.encode_batch(prompts)
        for number, (prompt, ids) in enumerate(zip(prompts, found, strict=True), start=1):
            which = f"prompt {number}" if len(prompts) > 1 else "the prompt"
            if not ids:
                raise RegardError(f"{which} is empty; there is nothing to go on with")
            if unseen := self.unseen(prompt):
                raise RegardError(f"{which} has {unseen!r}, a character that the model never saw")
            if self.max_length is not None and len(ids) > self.max_length:
                raise RegardError(
                    f"{which} has {len(ids)} tokens, the model's window {self.max_length}; "
                    "give the end of it only"
                )
        return found

    def check_stops(self, config: GenerationConfig) -> None:
        for stop in config.stop:
            if unseen := self.unseen(stop):
                raise RegardError(f"the stop string {stop!r} cannot occur: the model never saw {unseen!r}")

    def unseen(self, text: str) -> str | None:
        """The first character that a character model does not know."""
        if not isinstance(self.tokenizer, CharacterTokenizer) or self.tokenizer.kind != "characters":
            return None
        return next((letter for letter in text if letter not in self.tokenizer.alphabet), None)


class Unfolding:
    """A text that becomes known token by token; what may yet turn out otherwise is held back."""

    def __init__(self, prompt: str, tokenizer: Tokenizer, config: GenerationConfig) -> None:
        self.prompt, self.tokenizer, self.config = prompt, tokenizer, config
        self.pending: list[int] = []  # tokens whose letters are not complete
        self.held = ""  # letters that could be the beginning of a stop string
        self.told: list[str] = []
        self.tokens = 0
        self.whole: Completion | None = None

    def add(self, token: int) -> str:
        """Take a token; give the piece of text that is certain now."""
        if token == self.tokenizer.end:
            return self.close("end")
        self.tokens += 1
        self.pending.append(token)
        letters = self.tokenizer.decode(self.pending)
        if not letters.endswith(HALF) or len(self.pending) > 4:  # a character has four bytes at most
            self.pending = []
            self.held += letters
            cut = min(
                (place for stop in self.config.stop if (place := self.held.find(stop)) >= 0), default=None
            )
            if cut is not None:
                self.held = self.held[:cut]
                return self.close("stop")
        if self.tokens == self.config.tokens:
            return self.close("length")
        safe = len(self.held) - self.beginning_of_stop()
        piece, self.held = self.held[:safe], self.held[safe:]
        self.told.append(piece)
        return piece

    def beginning_of_stop(self) -> int:
        """How many of the last letters could be the beginning of a stop string."""
        return max(
            (
                size
                for stop in self.config.stop
                for size in range(1, min(len(stop), len(self.held) + 1))
                if self.held.endswith(stop[:size])
            ),
            default=0,
        )

    def close(self, why: str) -> str:
        """The end: what was held back is told, and the whole is known."""
        if why != "stop":
            self.held += self.tokenizer.decode(self.pending)
        piece, self.held = self.held, ""
        self.told.append(piece)
        self.whole = Completion(self.prompt, "".join(self.told), self.tokens, why)
        return piece


def samples(config: GenerationConfig, count: int) -> list[GenerationConfig]:
    """The same configuration with other seeds; the first keeps its own."""
    check_range("samples", count, 1, MAX_SAMPLES)
    sampling = config.sampling
    return [replace(config, sampling=replace(sampling, seed=sampling.seed + number)) for number in range(count)]
