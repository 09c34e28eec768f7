"""Decoding speed compared with CTranslate2 (float32, int8) and Hugging Face, in sentences per second.

    pip install -c constraints.txt -e '.[bench]'
    python benchmarks/decoding.py [--quick] [--rounds N] [--peers ...] [--json] [RUN SOURCE]

Without RUN, a model with random weights generates 16 tokens per sentence. harness/rounds.py describes
rounds, ratios and allocator settings. On Intel processors CTranslate2 has its own allocator (mkl_malloc, which
keeps freed blocks); on others it uses glibc's, to which the settings apply.
Rows: case, ours, peer, value (the peer's), ratio, low and high (its quartiles), settings, rounds, note.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from harness.rounds import (
    Contender,
    Ready,
    Row,
    argument_parser,
    as_json,
    compare_with_peers,
    format_table,
    round_count,
    selected_peers,
    start,
)

from regard.config.data import PairDataConfig
from regard.config.models import TransformerConfig
from regard.decoding import BeamSearchConfig, TranslationPipeline
from regard.engine.allocator import tuned_allocator
from regard.interop import ctranslate2 as to_ctranslate2
from regard.interop import huggingface_marian, transformers_models
from regard.nn.build import build
from regard.nn.transformer import Transformer
from regard.tasks.translation.config import TranslationRecipe, TranslationTrainConfig
from regard.tokenization import SPECIAL_TOKENS, Tokenizer

CASES = ((1, 1), (1, 5), (64, 1), (64, 5))
"""Batch size and beam size. With batch size 1, each call waits for the previous one (interactive use)."""
STEPS = 16
"""Tokens generated per sentence without a trained model."""
PEERS = {
    "ctranslate2": "CTranslate2 float32",
    "ctranslate2-int8": "CTranslate2 int8",
    "huggingface": "Hugging Face",
}
TURN = {1: 24, 64: 1024}
SLOW_TURN = {1: 6, 64: 128}


@dataclass(frozen=True)
class Subject:
    """A model and token ids to translate; `steps`: fixed output length for random weights, else 0."""

    model: Transformer
    recipe: TranslationRecipe
    sentences: list[list[int]]
    steps: int = 0


def load_subject(run: str, source: str) -> Subject:
    """The run's model with the lines of a file, or random weights with random sentences."""
    if run:
        from regard.tasks import load

        loaded: Any = load(Path(run))
        lines = Path(source).read_text("utf-8").splitlines()
        translator: TranslationPipeline = loaded.pipeline
        model: Any = translator.model
        ids = translator.source.encode_batch(lines)
        return Subject(model, loaded.recipe, [[*sentence, Tokenizer.end] for sentence in ids if sentence])
    torch.manual_seed(0)
    data, train = PairDataConfig(source="random", target="ids"), TranslationTrainConfig(steps=1)
    recipe = TranslationRecipe("translation", data, train, model=TransformerConfig(size="tiny"))
    random: Any = build(recipe.model, 8000, 8000, Tokenizer.padding).eval()
    with torch.no_grad():
        random.output_bias[Tokenizer.end] = -1e4
    generator = torch.Generator().manual_seed(1)
    sentences = torch.randint(4, 8000, (512, 14), generator=generator).tolist()
    return Subject(random, recipe, [[*sentence, Tokenizer.end] for sentence in sentences], STEPS)


Translate = Callable[[Sequence[Sequence[int]], int], object]
"""Translates sentences with a beam size."""


def ours(subject: Subject, *, frozen: bool = True) -> Translate:
    """regard's search; frozen as in `regard translate` and `regard serve`, or weights checked at every call."""
    translator = TranslationPipeline(subject.model, IdsOnly(), IdsOnly())  # type: ignore[arg-type]
    if frozen:
        translator.freeze()

    def translate(sentences: Sequence[Sequence[int]], beam: int) -> object:
        options = BeamSearchConfig(beam=beam, max_length=subject.steps or 256)
        return translator.search_ids([list(sentence[:-1]) for sentence in sentences], options, batch_size=64)

    return translate


class IdsOnly:
    """Special ids of a tokenizer without a vocabulary."""

    begin, end, padding, unknown = Tokenizer.begin, Tokenizer.end, Tokenizer.padding, Tokenizer.unknown


def ctranslate2(subject: Subject, kind: str) -> Translate:
    import ctranslate2 as engine

    folder = tempfile.mkdtemp()
    sizes = len(subject.model.source_embedding.weight), len(subject.model.output_bias)
    names, targets = (
        [*SPECIAL_TOKENS, *(f"w{number}" for number in range(len(SPECIAL_TOKENS), size))] for size in sizes
    )
    to_ctranslate2.write(subject.model, names, targets, Path(folder), subject.recipe.model.max_length)
    threads = torch.get_num_threads()
    # Fastest: all threads for one sentence, or one batch per thread for many.
    single = [
        engine.Translator(folder, compute_type=kind, intra_threads=count, inter_threads=1)
        for count in (1, threads)
    ]
    batched = engine.Translator(folder, compute_type=kind, intra_threads=1, inter_threads=threads)
    fastest: dict[int, Any] = {}

    def run(translator: Any, sentences: Sequence[Sequence[int]], beam: int) -> object:
        words = [[names[token] for token in sentence[:-1]] for sentence in sentences]  # it adds </s> itself
        lengths = {"max_decoding_length": subject.steps or 256, "min_decoding_length": subject.steps or 1}
        return translator.translate_batch(words, beam_size=beam, max_batch_size=64, **lengths)

    def translate(sentences: Sequence[Sequence[int]], beam: int) -> object:
        if len(sentences) > 1:
            return run(batched, sorted(sentences, key=len), beam)
        if beam not in fastest:
            times = []
            for translator in single:
                start_time = time.perf_counter()
                for _ in range(5):
                    run(translator, sentences, beam)
                times.append(time.perf_counter() - start_time)
            fastest[beam] = single[times.index(min(times))]
        return run(fastest[beam], sentences, beam)

    return translate


def huggingface(subject: Subject) -> Translate:
    folder = Path(tempfile.mkdtemp())
    huggingface_marian.write(
        subject.model, subject.recipe.model, subject.recipe.decode, subject.recipe.to_toml(), folder
    )
    model = transformers_models.load_model(folder, "AutoModelForSeq2SeqLM")

    @torch.inference_mode()
    def translate(sentences: Sequence[Sequence[int]], beam: int) -> object:
        outputs = []
        ordered = sorted(sentences, key=len)
        for first in range(0, len(ordered), 64):
            batch = ordered[first : first + 64]
            length = max(map(len, batch))
            rows = [[*sentence, *[Tokenizer.padding] * (length - len(sentence))] for sentence in batch]
            ids = torch.tensor(rows)
            lengths = {"max_new_tokens": subject.steps or 3 * length + 20}
            if subject.steps:
                lengths["min_new_tokens"] = subject.steps
            mask = (ids != Tokenizer.padding).long()
            outputs.append(
                model.generate(input_ids=ids, attention_mask=mask, num_beams=beam, do_sample=False, **lengths)
            )
        return outputs

    return translate


def decoding_turn(
    translate: Translate, sentences: list[list[int]], batch: int, beam: int, count: int
) -> Callable[[], float]:
    """A turn that translates the next `count` sentences and returns sentences per second."""
    position = 0

    def turn() -> float:
        nonlocal position
        chosen = [sentences[(position + number) % len(sentences)] for number in range(count)]
        position += count
        start_time = time.perf_counter()
        if batch == 1:
            for sentence in chosen:
                translate([sentence], beam)
        else:
            translate(chosen, beam)
        return count / (time.perf_counter() - start_time)

    return turn


def worker(engine: Callable[[Subject], Translate], sentences: dict[int, int]) -> Callable[..., Ready]:
    """A worker of an engine, with the number of sentences per turn for each batch size."""

    def prepare(batch: str, beam: str, run: str, source: str, part: str = "1") -> Ready:
        subject = load_subject(run, source)
        count = max(int(batch), sentences[int(batch)] // int(part))
        turn = decoding_turn(engine(subject), subject.sentences, int(batch), int(beam), count)
        turn()
        return Ready(turn)

    return prepare


WORKERS = {
    "ours": worker(ours, TURN),
    "ctranslate2": worker(partial(ctranslate2, kind="float32"), TURN),
    "ctranslate2-int8": worker(partial(ctranslate2, kind="int8"), TURN),
    "huggingface": worker(huggingface, SLOW_TURN),
}


def speeds(
    run: str, source: str, rounds: int, contenders: Sequence[Contender] = (), *, quick: bool = False
) -> list[Row]:
    """A row for each case and peer; `quick`: two cases, with a quarter of the sentences per turn."""
    return [
        row
        for batch, beam in (CASES[::3] if quick else CASES)
        for row in compare_with_peers(
            f"decoding batch {batch}, beam {beam}",
            __file__,
            [str(batch), str(beam), run, source, "4" if quick else "1"],
            contenders,
            rounds,
        )
    ]


def main() -> None:
    parser = argument_parser(__doc__, 7, peers=PEERS)
    parser.add_argument("run", nargs="?", default="", help="a trained run; random weights without one")
    parser.add_argument("source", nargs="?", default="", help="its sentences, one per line")
    options = parser.parse_args()
    peers = selected_peers(PEERS, options)
    rows = speeds(options.run, options.source, round_count(options), peers, quick=options.quick)
    print(as_json(rows) if options.json else format_table(rows, "sentences per second"))


if __name__ == "__main__":
    start(main, WORKERS, tuned_allocator)
