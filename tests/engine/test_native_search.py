"""Search in C against search in PyTorch: the same translations, and the same bits whatever stands beside."""

import copy
from typing import cast

import pytest
import torch
from torch import nn

from regard.config.models import TransformerConfig
from regard.decoding import BeamSearchConfig, DecodingConstraints, Hypothesis, search
from regard.engine.ops import top_of_rows
from regard.engine.search import NativeSearch, SearchSettings, native_search
from regard.nn.build import build
from regard.nn.ensemble import Ensemble
from regard.nn.knn import Datastore, KnnModel
from regard.nn.seq2seq import Decodable
from regard.nn.transformer import Transformer
from regard.tokenization import Tokenizer

WORDS = 75
LIMITS = DecodingConstraints(
    Tokenizer.begin, Tokenizer.end, (Tokenizer.begin, Tokenizer.padding, Tokenizer.unknown)
)
SENTENCES = [
    [5, 6, 7, 8, 1],
    [9, 1],
    [20, 30, 40, 50, 60, 70, 74, 4, 5, 1],
    [33, 44, 55, 1],
    [7, 7, 7, 7, 7, 1],
]


def model(**changes: object) -> Transformer:
    torch.manual_seed(int(str(changes.pop("seed", 1))))
    settings = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "heads": 4, "d_ff": 48, **changes}
    made = build(TransformerConfig(**settings), WORDS, WORDS, Tokenizer.padding)  # type: ignore[arg-type]
    for each in made.parameters():
        nn.init.normal_(each, std=0.3)
    assert isinstance(made, Transformer)
    with torch.no_grad():
        made.output_bias[Tokenizer.end] = 2.0  # some end soon, some are cut off
    return made.eval()


def settings(options: BeamSearchConfig) -> SearchSettings:
    assert LIMITS.begin is not None
    return SearchSettings(
        options.beam,
        options.nbest,
        options.max_length,
        LIMITS.begin,
        LIMITS.end,
        LIMITS.suppressed,
        options.length_penalty,
    )


def both(made: nn.Module, options: BeamSearchConfig) -> tuple[list[list[Hypothesis]], list[list[Hypothesis]]]:
    native = native_search(made, 256)
    assert native is not None
    plain = [search(cast(Decodable, made), torch.tensor([ids]), LIMITS, options)[0] for ids in SENTENCES]
    return native.translate(SENTENCES, settings(options)), plain


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(
    ("position", "tie_embeddings", "activation"),
    [
        ("sinusoidal", "all", "relu"),
        ("learned", "none", "gelu-tanh"),
        ("rotary", "all", "swiglu"),
        ("sinusoidal", "none", "gelu"),
        ("rotary", "none", "silu"),
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        BeamSearchConfig(beam=1, max_length=12),
        BeamSearchConfig(beam=5, nbest=5, max_length=12),
        BeamSearchConfig(beam=3, nbest=2, length_penalty=0.0, max_length=20),
        BeamSearchConfig(beam=4, length_penalty=0.6, max_length=7),
        BeamSearchConfig(beam=12, nbest=3, length_penalty=2.0, max_length=12),
        BeamSearchConfig(beam=2, nbest=6, max_length=12),
        BeamSearchConfig(beam=60, nbest=10, max_length=6),
    ],
    ids=str,
)
def test_the_same_hypotheses_as_the_plain_search(
    norm: str, position: str, tie_embeddings: str, activation: str, options: BeamSearchConfig
) -> None:
    """In the same order; and their log probabilities are those of a teacher-forced pass in float64."""
    for seed in (1, 2):
        made = model(
            norm=norm, position=position, tie_embeddings=tie_embeddings, activation=activation, seed=seed
        )
        ours, plain = both(made, options)
        assert [[each.ids for each in one] for one in ours] == [[each.ids for each in one] for one in plain]
        for source, one, other in zip(SENTENCES, ours, plain, strict=True):
            for mine, theirs in zip(one, other, strict=True):
                assert mine.score == pytest.approx(theirs.score, abs=1e-4)
                assert mine.log_probability == pytest.approx(
                    rescored(made, source, mine.ids, options), abs=1e-3
                )


@torch.no_grad()
def rescored(made: Transformer, source: list[int], ids: tuple[int, ...], options: BeamSearchConfig) -> float:
    """The log probability of a translation by one pass over it in float64, without what no translation contains."""
    room = min(LIMITS.max_length_for(len(source)), options.max_length)
    wanted = [*ids, *([LIMITS.end] if len(ids) < room else [])]  # what fills the room was cut off
    written = torch.tensor([[LIMITS.begin, *wanted[:-1]]])
    logits = copy.deepcopy(made).double()(torch.tensor([source]), written)[0]
    logits[:, list(LIMITS.suppressed)] = -torch.inf
    logits[0, LIMITS.end] = -torch.inf
    return float(logits.log_softmax(-1)[torch.arange(len(wanted)), torch.tensor(wanted)].sum())


def test_a_beam_as_wide_as_the_vocabulary() -> None:
    options = BeamSearchConfig(beam=WORDS, nbest=4, max_length=4)
    ours, plain = both(model(), options)
    assert [[each.ids for each in one] for one in ours] == [[each.ids for each in one] for one in plain]


@pytest.mark.parametrize(
    "options",
    [BeamSearchConfig(beam=1), BeamSearchConfig(beam=4, nbest=4), BeamSearchConfig(beam=3, max_length=6)],
    ids=str,
)
def test_an_ensemble_equals_the_plain_search(options: BeamSearchConfig) -> None:
    """Of other depth, width and norm too: only their words must be the same."""
    members = [model(seed=1), model(seed=2, norm="post"), model(seed=3, d_model=64, d_ff=80, decoder_layers=3)]
    for some in (members[:2], members):
        ours, plain = both(Ensemble(some).eval(), options)
        for one, other in zip(ours, plain, strict=True):
            for mine, theirs in zip(one, other, strict=True):
                assert mine.ids == theirs.ids
                assert mine.score == pytest.approx(theirs.score, abs=1e-4)


def test_one_member_that_the_kernels_do_not_know_leaves_all_to_search() -> None:
    assert native_search(Ensemble([model(), model(position="alibi")]).eval(), 256) is None
    assert native_search(Ensemble([model(), model()]), 256) is not None  # those in it do not train


@pytest.mark.parametrize("made", [model(), Ensemble([model(seed=1), model(seed=2)])], ids=["one", "two"])
def test_a_translation_has_the_same_bits_in_any_batch(made: nn.Module) -> None:
    native = native_search(made, 256)
    assert native is not None
    wanted = settings(BeamSearchConfig(beam=3, nbest=3))
    together = native.translate(SENTENCES * 9, wanted)
    for number, ids in enumerate(SENTENCES * 9):
        assert native.translate([ids], wanted)[0] == together[number]


@pytest.mark.parametrize(
    "changes",
    [{"position": "alibi"}, {"position": "relative"}, {"score": "additive"}, {"d_model": 12, "heads": 3}],
)
def test_unsupported_models_use_the_plain_search(changes: dict[str, object]) -> None:
    assert native_search(model(**changes), 256) is None


def test_changed_weights_are_seen() -> None:
    made = model()
    first = native_search(made, 256)
    assert native_search(made, 256) is first
    with torch.no_grad():
        made.decoder.blocks[0].feed_forward.sublayer.fc1.weight.mul_(2)  # type: ignore[union-attr,operator]
    ours, plain = both(made, BeamSearchConfig(beam=2))
    assert native_search(made, 256) is not first
    assert [each[0].ids for each in ours] == [each[0].ids for each in plain]
    made.train()
    assert native_search(made, 256) is None


def test_weights_made_in_inference_mode_are_searched_too() -> None:
    with torch.inference_mode():
        made = model()
        first = native_search(made, 256)
        assert isinstance(first, NativeSearch)
        made.target_embedding.weight.add_(1.0)
        assert native_search(made, 256) is not first


@pytest.mark.parametrize(("words", "wanted"), [(5, 5), (40, 10), (1000, 10), (1003, 1)])
def test_the_top_of_rows(words: int, wanted: int) -> None:
    torch.manual_seed(6)
    scores = torch.randn(17, words)
    scores[3] = scores[3].sort().values
    scores[4, : words // 2] = -torch.inf
    best, tokens, norms = top_of_rows(scores, wanted)
    theirs, _ = scores.topk(wanted)
    assert torch.equal(best, theirs)
    assert torch.equal(scores.gather(1, tokens), best)
    assert torch.allclose(norms, scores.logsumexp(-1), atol=1e-5)


def test_of_equal_scores_the_first_word_is_taken() -> None:
    scores = torch.zeros(1, 100)
    scores[0, 60] = 1.0
    _, tokens, _ = top_of_rows(scores, 4)
    assert tokens.tolist() == [[60, 0, 1, 2]]


def remembering(made: Transformer, seed: int, weight: float = 0.4) -> KnnModel:
    torch.manual_seed(seed)
    keys, words = torch.randn(500, 32).half(), torch.randint(1, WORDS, (500,))
    return KnnModel(made, Datastore(keys, words, count=8, weight=weight, sharpness=0.7)).eval()


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("options", [BeamSearchConfig(beam=1), BeamSearchConfig(beam=5, nbest=3)], ids=str)
def test_knn_search_equals_the_plain_search(norm: str, options: BeamSearchConfig) -> None:
    alone = model(norm=norm)
    for asked in (
        remembering(alone, 1),
        Ensemble([remembering(alone, 2), model(seed=2)]).eval(),
        Ensemble([model(seed=3), remembering(model(seed=4), 3, 0.7)]).eval(),
    ):
        ours, plain = both(asked, options)
        for one, other in zip(ours, plain, strict=True):
            assert [each.ids for each in one] == [each.ids for each in other]
            for mine, theirs in zip(one, other, strict=True):
                assert mine.score == pytest.approx(theirs.score, abs=1e-4)
    with_memory = [each[0].ids for each in both(remembering(alone, 1), options)[0]]
    assert with_memory != [each[0].ids for each in both(alone, options)[0]]
