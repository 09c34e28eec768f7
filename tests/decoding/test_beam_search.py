"""Beam search against brute force; results do not depend on the batch; sampling."""

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
CONSTRAINTS = DecodingConstraints(BEGIN, END, (BEGIN, PAD, UNKNOWN))


RNNS = {
    "rnn": {},
    "rnn-lstm": {"cell": "lstm", "layers": 2, "bidirectional": True},
    "bahdanau": {"attention": "bahdanau", "bidirectional": True},
    "luong": {"attention": "luong", "cell": "lstm", "input_feeding": True},
    "luong-dot": {"attention": "luong", "score": "dot"},
}
ARCHITECTURES = ["transformer", *RNNS]
WITH_ATTENTION = ["transformer", "bahdanau", "luong", "luong-dot"]


def random_model(kind: str = "transformer", vocabulary: int = 30, size: int = 32) -> nn.Module:
    torch.manual_seed(3)
    if kind == "transformer":
        config = TransformerConfig(encoder_layers=2, decoder_layers=2, d_model=size, heads=4, d_ff=2 * size)
    else:
        config = RnnConfig("rnn", embedding=size, hidden=size, **RNNS[kind])
    network = build(config, vocabulary, vocabulary, PAD).eval()
    for parameter in network.parameters():
        parameter.data.mul_(1.5)  # so that the outputs differ by sentence
    return network


def sources(count: int, length: int, vocabulary: int = 30) -> torch.Tensor:
    return torch.randint(4, vocabulary, (count, length), generator=torch.Generator().manual_seed(5))


def log_probability(network: nn.Module, source: torch.Tensor, ids: list[int]) -> float:
    """Log probability of a whole translation by one teacher-forced pass, with the suppressed tokens masked."""
    with torch.no_grad():
        scores = network(source[None], torch.tensor([[BEGIN, *ids]]))[0]
    total = 0.0
    for position, token in enumerate([*ids, END]):
        row = scores[position].clone()
        row[list(CONSTRAINTS.suppressed)] = -torch.inf
        if position == 0:
            row[END] = -torch.inf
        total += float(row.log_softmax(-1)[token])
    return total


@pytest.mark.parametrize("kind", ARCHITECTURES)
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_translations_by_brute_force(penalty: float, kind: str) -> None:
    network = random_model(kind, vocabulary=7)
    source = sources(3, 4, 7)
    options = BeamSearchConfig(beam=200, nbest=3, length_penalty=penalty, max_length=4)
    results = search(network, source, CONSTRAINTS, options)
    for number, sentence in enumerate(source):
        every = [list(ids) for n in (1, 2, 3) for ids in itertools.product((4, 5, 6), repeat=n)]
        ranked = sorted(
            ((log_probability(network, sentence, ids) / (len(ids) + 1) ** penalty, ids) for ids in every),
            reverse=True,
        )
        assert list(results[number][0].ids) == ranked[0][1]
        assert results[number][0].score == pytest.approx(ranked[0][0], abs=1e-4)
        assert [list(hypothesis.ids) for hypothesis in results[number]][:2] == [ids for _, ids in ranked[:2]]


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_beam_one_is_greedy(kind: str) -> None:
    network = random_model(kind)
    source = sources(6, 5)
    for number, [best] in enumerate(search(network, source, CONSTRAINTS, BeamSearchConfig(beam=1))):
        token_ids: list[int] = []
        while len(token_ids) < 35:
            with torch.no_grad():
                scores = network(source[number : number + 1], torch.tensor([[BEGIN, *token_ids]]))[0, -1]
            scores[list(CONSTRAINTS.suppressed)] = -torch.inf
            if not token_ids:
                scores[END] = -torch.inf
            if int(scores.argmax()) == END:
                break
            token_ids.append(int(scores.argmax()))
        assert list(best.ids) == token_ids[: len(best.ids)]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """With several threads PyTorch splits matrix products at other positions; the last bits then differ."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", ARCHITECTURES)
@pytest.mark.parametrize("beam", [1, 5])
def test_results_are_bit_identical_in_every_batch(beam: int, kind: str, one_thread: None) -> None:
    network = random_model(kind, vocabulary=400, size=64)
    source = sources(33, 9, 400)
    options = BeamSearchConfig(beam=beam, nbest=beam)
    whole = search(network, source, CONSTRAINTS, options)
    for size in (1, 7, 30):
        parts = [
            hypotheses
            for first in range(0, 33, size)
            for hypotheses in search(network, source[first : first + size], CONSTRAINTS, options)
        ]
        assert parts == whole  # ids and scores alike


def test_a_beam_finds_more_likely_translations_than_greedy_search() -> None:
    network = random_model(vocabulary=100)
    source = sources(20, 6, 100)
    greedy = search(network, source, CONSTRAINTS, BeamSearchConfig(beam=1, length_penalty=0))
    beam = search(network, source, CONSTRAINTS, BeamSearchConfig(beam=8, length_penalty=0))
    gains = [b[0].score - g[0].score for b, g in zip(beam, greedy, strict=True)]
    assert sum(gains) > 0
    assert all(math.isfinite(gain) for gain in gains)


def test_nbest_is_ranked_and_distinct() -> None:
    for hypotheses in search(random_model(), sources(4, 5), CONSTRAINTS, BeamSearchConfig(beam=6, nbest=4)):
        assert len(hypotheses) == 4
        assert len({hypothesis.ids for hypothesis in hypotheses}) == 4
        assert [hypothesis.score for hypothesis in hypotheses] == sorted(
            (hypothesis.score for hypothesis in hypotheses), reverse=True
        )


def test_special_symbols_never_appear() -> None:
    for hypotheses in search(random_model(), sources(16, 6), CONSTRAINTS, BeamSearchConfig(beam=3, nbest=3)):
        assert all(min(hypothesis.ids, default=9) > UNKNOWN for hypothesis in hypotheses)


def test_no_repeated_ngrams() -> None:
    constraints = DecodingConstraints(BEGIN, END, CONSTRAINTS.suppressed, no_repeat=2)
    for [best] in search(random_model(), sources(16, 6), constraints, BeamSearchConfig(beam=3)):
        bigrams = list(itertools.pairwise(best.ids))
        assert len(bigrams) == len(set(bigrams))


def test_prefixes_are_kept() -> None:
    prefixes = [[7, 8], [], [9]]
    results = search(random_model(), sources(3, 5), CONSTRAINTS, BeamSearchConfig(beam=4), prefixes)
    starts = [list(best.ids[: len(prefix)]) for [best, *_], prefix in zip(results, prefixes, strict=True)]
    assert starts == prefixes


def test_a_length_penalty_favours_longer_translations() -> None:
    network = random_model()
    source = sources(24, 6)
    mean = [
        sum(
            len(best.ids)
            for [best, *_] in search(network, source, CONSTRAINTS, BeamSearchConfig(beam=8, length_penalty=p))
        )
        for p in (0.0, 2.0)
    ]
    assert mean[1] > mean[0]


@pytest.mark.parametrize("kind", WITH_ATTENTION)
def test_the_coverage_penalty_lowers_scores_by_the_attention_to_the_source(kind: str) -> None:
    network, source = random_model(kind), sources(4, 6)
    # Short translations: a long one has attended to every source token.
    plain = search(network, source, CONSTRAINTS, BeamSearchConfig(beam=3, nbest=3, max_length=3))
    covered = search(
        network, source, CONSTRAINTS, BeamSearchConfig(beam=3, nbest=3, max_length=3, coverage=0.5)
    )
    scores = {hypothesis.ids: hypothesis.score for hypotheses in plain for hypothesis in hypotheses}
    shared = [
        (hypothesis.score, scores[hypothesis.ids])
        for hypotheses in covered
        for hypothesis in hypotheses
        if hypothesis.ids in scores
    ]
    assert shared
    assert all(with_penalty <= without for with_penalty, without in shared)
    assert any(with_penalty < without for with_penalty, without in shared)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_sampling_is_repeatable_by_seed_and_independent_of_the_batch(kind: str) -> None:
    network, source = random_model(kind, vocabulary=100), sources(6, 5, 100)
    whole = sample(network, source, CONSTRAINTS, SamplingConfig(3), range(6))
    assert sample(network, source, CONSTRAINTS, SamplingConfig(3), range(6)) == whole
    alone = [sample(network, source[n : n + 1], CONSTRAINTS, SamplingConfig(3), [n])[0] for n in range(6)]
    assert [hypothesis.ids for hypothesis in alone] == [hypothesis.ids for hypothesis in whole]
    assert sample(network, source, CONSTRAINTS, SamplingConfig(50), range(6)) != whole


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_top_k_of_one_is_greedy_search(kind: str) -> None:
    network, source = random_model(kind), sources(5, 5)
    sampled = sample(network, source, CONSTRAINTS, SamplingConfig(1, top_k=1), range(5))
    greedy = search(network, source, CONSTRAINTS, BeamSearchConfig(beam=1))
    for hypothesis, [best] in zip(sampled, greedy, strict=True):
        assert hypothesis.ids[: len(best.ids)] == best.ids
