"""Search against brute force, and its independence of the batch."""

import itertools
import math
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from regard.config.models import RnnConfig, TransformerConfig
from regard.decoding import BeamSearchConfig, DecodingConstraints, search
from regard.decoding.sampling import SamplingConfig, sample
from regard.nn.build import build

BEGIN, END, PAD, UNKNOWN = 0, 1, 2, 3
LIMITS = DecodingConstraints(BEGIN, END, (BEGIN, PAD, UNKNOWN))


RNNS = {
    "rnn": {},
    "rnn-lstm": {"cell": "lstm", "layers": 2, "bidirectional": True},
    "bahdanau": {"attention": "bahdanau", "bidirectional": True},
    "luong": {"attention": "luong", "cell": "lstm", "input_feeding": True},
    "luong-dot": {"attention": "luong", "score": "dot"},
}
KINDS = ["transformer", *RNNS]
ATTENTIVE = ["transformer", "bahdanau", "luong", "luong-dot"]


def model(kind: str = "transformer", vocabulary: int = 30, size: int = 32) -> nn.Module:
    torch.manual_seed(3)
    if kind == "transformer":
        config = TransformerConfig(encoder_layers=2, decoder_layers=2, d_model=size, heads=4, d_ff=2 * size)
    else:
        config = RnnConfig("rnn", embedding=size, hidden=size, **RNNS[kind])
    made = build(config, vocabulary, vocabulary, PAD).eval()
    for each in made.parameters():
        each.data.mul_(1.5)  # opinions strong enough to differ by sentence
    return made


def sources(count: int, length: int, vocabulary: int = 30) -> torch.Tensor:
    return torch.randint(4, vocabulary, (count, length), generator=torch.Generator().manual_seed(5))


def log_probability(made: nn.Module, source: torch.Tensor, ids: list[int]) -> float:
    """Of a whole translation, by one full pass, under the search's rules."""
    with torch.no_grad():
        scores = made(source[None], torch.tensor([[BEGIN, *ids]]))[0]
    total = 0.0
    for place, token in enumerate([*ids, END]):
        row = scores[place].clone()
        row[list(LIMITS.never)] = -torch.inf
        if place == 0:
            row[END] = -torch.inf
        total += float(row.log_softmax(-1)[token])
    return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_finds_what_brute_force_finds(penalty: float, kind: str) -> None:
    made = model(kind, vocabulary=7)
    source = sources(3, 4, 7)
    options = BeamSearchConfig(beam=200, nbest=3, length_penalty=penalty, max_length=4)
    found = search(made, source, LIMITS, options)
    for number, sentence in enumerate(source):
        every = [list(ids) for n in (1, 2, 3) for ids in itertools.product((4, 5, 6), repeat=n)]
        ranked = sorted(
            ((log_probability(made, sentence, ids) / (len(ids) + 1) ** penalty, ids) for ids in every),
            reverse=True,
        )
        assert list(found[number][0].ids) == ranked[0][1]
        assert found[number][0].score == pytest.approx(ranked[0][0], abs=1e-4)
        assert [list(each.ids) for each in found[number]][:2] == [ids for _, ids in ranked[:2]]


@pytest.mark.parametrize("kind", KINDS)
def test_beam_one_is_greedy(kind: str) -> None:
    made = model(kind)
    source = sources(6, 5)
    for number, [best] in enumerate(search(made, source, LIMITS, BeamSearchConfig(beam=1))):
        written: list[int] = []
        while len(written) < 35:
            with torch.no_grad():
                scores = made(source[number : number + 1], torch.tensor([[BEGIN, *written]]))[0, -1]
            scores[list(LIMITS.never)] = -torch.inf
            if not written:
                scores[END] = -torch.inf
            if int(scores.argmax()) == END:
                break
            written.append(int(scores.argmax()))
        assert list(best.ids) == written[: len(best.ids)]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """PyTorch's products are cut at other places by several threads, and then differ in the last bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beam", [1, 5])
def test_the_batch_does_not_matter_to_the_bit(beam: int, kind: str, one_thread: None) -> None:
    made = model(kind, vocabulary=400, size=64)
    source = sources(33, 9, 400)
    options = BeamSearchConfig(beam=beam, nbest=beam)
    whole = search(made, source, LIMITS, options)
    for size in (1, 7, 30):
        parts = [
            each
            for first in range(0, 33, size)
            for each in search(made, source[first : first + size], LIMITS, options)
        ]
        assert parts == whole  # ids and scores alike


def test_more_is_found_with_a_beam() -> None:
    made = model(vocabulary=100)
    source = sources(20, 6, 100)
    greedy = search(made, source, LIMITS, BeamSearchConfig(beam=1, length_penalty=0))
    beam = search(made, source, LIMITS, BeamSearchConfig(beam=8, length_penalty=0))
    gains = [b[0].score - g[0].score for b, g in zip(beam, greedy, strict=True)]
    assert sum(gains) > 0
    assert all(math.isfinite(gain) for gain in gains)


def test_nbest_is_ranked_and_distinct() -> None:
    for found in search(model(), sources(4, 5), LIMITS, BeamSearchConfig(beam=6, nbest=4)):
        assert len(found) == 4
        assert len({each.ids for each in found}) == 4
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def test_special_symbols_never_appear() -> None:
    for found in search(model(), sources(16, 6), LIMITS, BeamSearchConfig(beam=3, nbest=3)):
        assert all(min(each.ids, default=9) > UNKNOWN for each in found)


def test_no_repeated_runs() -> None:
    limits = DecodingConstraints(BEGIN, END, LIMITS.never, no_repeat=2)
    for [best] in search(model(), sources(16, 6), limits, BeamSearchConfig(beam=3)):
        runs = list(itertools.pairwise(best.ids))
        assert len(runs) == len(set(runs))


def test_prefixes_are_kept() -> None:
    prefixes = [[7, 8], [], [9]]
    found = search(model(), sources(3, 5), LIMITS, BeamSearchConfig(beam=4), prefixes)
    assert [list(each[0].ids[: len(prefix)]) for each, prefix in zip(found, prefixes, strict=True)] == prefixes


def test_length_penalty_favours_longer_ones() -> None:
    made = model()
    source = sources(24, 6)
    mean = [
        sum(
            len(each[0].ids)
            for each in search(made, source, LIMITS, BeamSearchConfig(beam=8, length_penalty=p))
        )
        for p in (0.0, 2.0)
    ]
    assert mean[1] > mean[0]


@pytest.mark.parametrize("kind", ATTENTIVE)
def test_coverage_changes_scores_by_what_was_looked_at(kind: str) -> None:
    made, source = model(kind), sources(4, 6)
    # Short ones: a translation that goes on and on has looked at everything.
    plain = search(made, source, LIMITS, BeamSearchConfig(beam=3, nbest=3, max_length=3))
    covered = search(made, source, LIMITS, BeamSearchConfig(beam=3, nbest=3, max_length=3, coverage=0.5))
    scores = {each.ids: each.score for found in plain for each in found}
    shared = [(each.score, scores[each.ids]) for found in covered for each in found if each.ids in scores]
    assert shared
    assert all(with_penalty <= without for with_penalty, without in shared)
    assert any(with_penalty < without for with_penalty, without in shared)


@pytest.mark.parametrize("kind", KINDS)
def test_sampling_repeats_by_seed_and_does_not_see_its_neighbours(kind: str) -> None:
    made, source = model(kind, vocabulary=100), sources(6, 5, 100)
    whole = sample(made, source, LIMITS, SamplingConfig(3), range(6))
    assert sample(made, source, LIMITS, SamplingConfig(3), range(6)) == whole
    alone = [sample(made, source[n : n + 1], LIMITS, SamplingConfig(3), [n])[0] for n in range(6)]
    assert [each.ids for each in alone] == [each.ids for each in whole]
    assert sample(made, source, LIMITS, SamplingConfig(50), range(6)) != whole


@pytest.mark.parametrize("kind", KINDS)
def test_sampling_the_single_best_is_greedy(kind: str) -> None:
    made, source = model(kind), sources(5, 5)
    drawn = sample(made, source, LIMITS, SamplingConfig(1, top_k=1), range(5))
    greedy = search(made, source, LIMITS, BeamSearchConfig(beam=1))
    for one, [other] in zip(drawn, greedy, strict=True):
        assert one.ids[: len(other.ids)] == other.ids
