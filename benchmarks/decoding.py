"""Decoding speed beside CTranslate2 (float32, int8) and Hugging Face, in sentences a second, the same weights.

    pip install -c constraints.txt -e '.[bench]'
    python benchmarks/decoding.py [--quick] [--rounds N] [--peers ...] [--json] [RUN SOURCE]

Without RUN, a model of random weights decodes 16 tokens for each sentence. harness/rounds.py
describes rounds, ratios and allocator settings. CTranslate2 has an
allocator of its own on Intel processors (mkl_malloc, which keeps freed blocks); on others it uses glibc's, to
which the settings apply.
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
from harness.rounds import Contender, Ready, Row, against, as_json, chosen_peers, parser, rounds_of, show, start

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
"""Sentences a call, and beam. One: each waits for the one before it, as when somebody types."""
STEPS = 16
"""Tokens written for each sentence where there is no trained model."""
PEERS = {
    "ctranslate2": "CTranslate2 float32",
    "ctranslate2-int8": "CTranslate2 int8",
    "huggingface": "Hugging Face",
}
TURN = {1: 24, 64: 1024}
SLOW_TURN = {1: 6, 64: 128}


@dataclass(frozen=True)
class Subject:
    """A model and sentences of ids to translate; `steps` are written where its weights mean nothing."""

    model: Transformer
    recipe: TranslationRecipe
    sentences: list[list[int]]
    steps: int = 0


def subject(run: str, source: str) -> Subject:
    """The run's model on the lines of a file, or without a run, random weights on made-up sentences."""
    if run:
        from regard.tasks import load

        loaded: Any = load(Path(run))
        lines = Path(source).read_text("utf-8").splitlines()
        translator: TranslationPipeline = loaded.pipeline
        model: Any = translator.model
        ids = translator.source.encode_batch(lines)
        return Subject(model, loaded.recipe, [[*each, Tokenizer.end] for each in ids if each])
    torch.manual_seed(0)
    data, train = PairDataConfig(source="random", target="ids"), TranslationTrainConfig(steps=1)
    recipe = TranslationRecipe("translation", data, train, model=TransformerConfig(size="tiny"))
    made: Any = build(recipe.model, 8000, 8000, Tokenizer.padding).eval()
    with torch.no_grad():
        made.output_bias[Tokenizer.end] = -1e4
    generator = torch.Generator().manual_seed(1)
    sentences = torch.randint(4, 8000, (512, 14), generator=generator).tolist()
    return Subject(made, recipe, [[*each, Tokenizer.end] for each in sentences], STEPS)


Translate = Callable[[Sequence[Sequence[int]], int], object]
"""Sentences and a beam."""


def ours(given: Subject, *, frozen: bool = True) -> Translate:
    """Frozen as `regard translate` and `regard serve` have it, or checked for changes at every call."""
    translator = TranslationPipeline(given.model, IdsOnly(), IdsOnly())  # type: ignore[arg-type]
    if frozen:
        translator.freeze()

    def translate(sentences: Sequence[Sequence[int]], beam: int) -> object:
        options = BeamSearchConfig(beam=beam, max_length=given.steps or 256)
        return translator.search_ids([list(each[:-1]) for each in sentences], options, batch_size=64)

    return translate


class IdsOnly:
    """A tokenizer's special ids, without its words."""

    begin, end, padding, unknown = Tokenizer.begin, Tokenizer.end, Tokenizer.padding, Tokenizer.unknown


def ctranslate2(given: Subject, kind: str) -> Translate:
    import ctranslate2 as engine

    place = tempfile.mkdtemp()
    sizes = len(given.model.source_embedding.weight), len(given.model.output_bias)
    names, targets = (
        [*SPECIAL_TOKENS, *(f"w{number}" for number in range(len(SPECIAL_TOKENS), size))] for size in sizes
    )
    to_ctranslate2.write(given.model, names, targets, Path(place), given.recipe.model.max_length)
    threads = torch.get_num_threads()
    # One at a time all threads help it; with many, it is fastest with a batch to each thread.
    alone = [
        engine.Translator(place, compute_type=kind, intra_threads=each, inter_threads=1)
        for each in (1, threads)
    ]
    many = engine.Translator(place, compute_type=kind, intra_threads=1, inter_threads=threads)
    best: dict[int, Any] = {}

    def run(translator: Any, sentences: Sequence[Sequence[int]], beam: int) -> object:
        words = [[names[number] for number in each[:-1]] for each in sentences]  # the end it adds itself
        lengths = {"max_decoding_length": given.steps or 256, "min_decoding_length": given.steps or 1}
        return translator.translate_batch(words, beam_size=beam, max_batch_size=64, **lengths)

    def translate(sentences: Sequence[Sequence[int]], beam: int) -> object:
        if len(sentences) > 1:
            return run(many, sorted(sentences, key=len), beam)
        if beam not in best:  # the faster of the two, found once
            times = []
            for each in alone:
                start = time.perf_counter()
                for _ in range(5):
                    run(each, sentences, beam)
                times.append(time.perf_counter() - start)
            best[beam] = alone[times.index(min(times))]
        return run(best[beam], sentences, beam)

    return translate


def huggingface(given: Subject) -> Translate:
    place = Path(tempfile.mkdtemp())
    huggingface_marian.write(
        given.model, given.recipe.model, given.recipe.decode, given.recipe.to_toml(), place
    )
    model = transformers_models.load_model(place, "AutoModelForSeq2SeqLM")

    @torch.inference_mode()
    def translate(sentences: Sequence[Sequence[int]], beam: int) -> object:
        done = []
        ordered = sorted(sentences, key=len)
        for first in range(0, len(ordered), 64):
            some = ordered[first : first + 64]
            wide = max(map(len, some))
            rows = [[*each, *[Tokenizer.padding] * (wide - len(each))] for each in some]
            ids = torch.tensor(rows)
            lengths = {"max_new_tokens": given.steps or 3 * wide + 20}
            if given.steps:
                lengths["min_new_tokens"] = given.steps
            seen = (ids != Tokenizer.padding).long()
            done.append(
                model.generate(input_ids=ids, attention_mask=seen, num_beams=beam, do_sample=False, **lengths)
            )
        return done

    return translate


def turns_of(
    translate: Translate, sentences: list[list[int]], batch: int, beam: int, many: int
) -> Callable[[], float]:
    """A turn: the next sentences, in sentences a second."""
    place = 0

    def turn() -> float:
        nonlocal place
        some = [sentences[(place + number) % len(sentences)] for number in range(many)]
        place += many
        begun = time.perf_counter()
        if batch == 1:
            for each in some:
                translate([each], beam)
        else:
            translate(some, beam)
        return many / (time.perf_counter() - begun)

    return turn


def worker(engine: Callable[[Subject], Translate], sentences: dict[int, int]) -> Callable[..., Ready]:
    """A worker of an engine, with the number of sentences in a turn for each batch size."""

    def prepare(batch: str, beam: str, run: str, source: str, part: str = "1") -> Ready:
        given = subject(run, source)
        many = max(int(batch), sentences[int(batch)] // int(part))
        turn = turns_of(engine(given), given.sentences, int(batch), int(beam), many)
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
    """A row for each case and each peer; if quick, of two cases, with a quarter of the sentences in a turn."""
    return [
        row
        for batch, beam in (CASES[::3] if quick else CASES)
        for row in against(
            f"decoding batch {batch}, beam {beam}",
            __file__,
            [str(batch), str(beam), run, source, "4" if quick else "1"],
            contenders,
            rounds,
        )
    ]


def main() -> None:
    made = parser(__doc__, 7, peers=PEERS)
    made.add_argument("run", nargs="?", default="", help="a trained run; random weights without one")
    made.add_argument("source", nargs="?", default="", help="its sentences, one a line")
    options = made.parse_args()
    peers = chosen_peers(PEERS, options)
    rows = speeds(options.run, options.source, rounds_of(options), peers, quick=options.quick)
    print(as_json(rows) if options.json else show(rows, "sentences a second"))


if __name__ == "__main__":
    start(main, WORKERS, tuned_allocator)
