"""GPT: as many parameters as the papers say, no look ahead, a cache that changes nothing, a window that slides."""

import pytest
import torch
from torch import Tensor

from regard.config.models import GptConfig
from regard.config.schema import build, parse_assignments
from regard.engine.forward import gpt_hidden
from regard.errors import RecipeError
from regard.nn import Packed, Recorder
from regard.nn.build import build_bert, build_gpt, build_text_model
from regard.nn.gpt import PADDING, Gpt, GptClassifier, GptLanguageModel
from regard.tasks.registry import load_recipe

POSITIONS = ["learned", "sinusoidal", "relative", "rotary", "alibi"]


def small(**changes: object) -> GptConfig:
    usual = {
        "layers": 2,
        "d_model": 32,
        "heads": 2,
        "d_ff": 64,
        "max_length": 16,
        "dropout": 0.0,
        "attention_dropout": 0.0,
    }
    return build(GptConfig, {**usual, **changes})


def writer(seed: int = 0, **changes: object) -> GptLanguageModel:
    torch.manual_seed(seed)
    model = build_gpt(small(**changes), "language", 40).eval()
    assert isinstance(model, GptLanguageModel)
    for each in model.parameters():  # norms and biases too: fresh ones are 1 and 0
        torch.nn.init.normal_(each, std=0.2)
    return model


def ids(rows: int, length: int) -> Tensor:
    return torch.randint(40, (rows, length), generator=torch.Generator().manual_seed(1))


def test_the_named_sizes_have_the_papers_parameters() -> None:
    def parameters(size: str, vocabulary: int) -> int:
        with torch.device("meta"):
            return sum(
                each.numel() for each in build_gpt(GptConfig(size=size), "language", vocabulary).parameters()
            )

    assert abs(parameters("gpt", 40_000) / 117e6 - 1) < 0.01
    assert abs(parameters("gpt", 40_478) / 116_534_784 - 1) < 1e-4  # the released one; ours has no bias of keys
    assert parameters("gpt2", 50_257) == 124_439_808 - 12 * 768
    assert (GptConfig(size="gpt").norm, GptConfig(size="gpt2").norm) == ("post", "pre")
    assert (GptConfig(size="gpt").max_length, GptConfig(size="gpt").position) == (512, "learned")


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("position", POSITIONS)
@torch.no_grad()
def test_the_cache_gives_what_the_whole_text_gives(position: str, norm: str) -> None:
    model, text = writer(position=position, norm=norm), ids(3, 12)
    whole = model(text)
    state = model.start(text[:, :5])
    for place in range(5, 12):
        scores, state = model.step(text[:, place], state)
        assert torch.allclose(scores, whole[:, place], atol=1e-5)


@pytest.mark.parametrize("position", POSITIONS)
@torch.no_grad()
def test_nothing_looks_ahead_and_padding_changes_nothing(position: str) -> None:
    model, text = writer(position=position), ids(2, 12)
    other = text.clone()
    other[:, 8:] = (other[:, 8:] + 7) % 40
    assert torch.allclose(model(text)[:, :8], model(other)[:, :8], atol=1e-5)
    assert not torch.allclose(model(text)[:, 8:], model(other)[:, 8:], atol=1e-3)
    padded = torch.cat([text, torch.full((2, 3), PADDING)], dim=1)
    assert torch.allclose(model(padded)[:, :12], model(text), atol=1e-5)


def test_packed_texts_have_the_hidden_states_and_gradients_of_padded_texts() -> None:
    model, text = writer().gpt, ids(3, 10)
    text[1, 6:] = PADDING
    beside = model(text)[text != PADDING]
    packed = gpt_hidden(model, Packed.from_padded(text, text != PADDING))
    assert packed.lengths.tolist() == [10, 6, 10]
    rows = packed.values
    assert torch.allclose(rows, beside, atol=1e-5)
    parameters = list(model.parameters())
    mine = torch.autograd.grad(rows.square().sum(), parameters)
    theirs = torch.autograd.grad(beside.square().sum(), parameters)
    assert all(
        torch.allclose(one, other, atol=1e-3, rtol=1e-3) for one, other in zip(mine, theirs, strict=True)
    )


@torch.no_grad()
def test_a_full_window_slides_to_its_later_half() -> None:
    model, text = writer(), ids(2, 24)
    state = model.start(text[:, :10])
    for place in range(10, 24):
        scores, state = model.step(text[:, place], state)
        assert state.ids.size(1) <= 16
    # 16 were seen when the 17th came: the last 8 of them were read anew, and 8 more since.
    assert torch.allclose(scores, model(text[:, 8:])[:, -1], atol=1e-5)


@torch.no_grad()
def test_a_state_can_be_chosen_from() -> None:
    model, text = writer(), ids(3, 6)
    _, state = model.step(text[:, 4], model.start(text[:, :4]))
    scores, _ = model.step(text[[2, 0], 5], state.select(torch.tensor([2, 0])))
    assert torch.allclose(scores, model(text[[2, 0]])[:, -1], atol=1e-5)


def test_a_label_is_read_at_the_last_token_and_symbols_have_vectors_of_their_own() -> None:
    torch.manual_seed(0)
    model = build_text_model(small(), "classes", 43, PADDING, 3).eval()
    assert isinstance(model, GptClassifier)
    assert model.gpt.token_embedding.num_embeddings == 40
    text = torch.tensor([[40, 5, 6, 42, PADDING], [40, 5, 41, 7, 42]])
    with torch.no_grad():
        both = model(text)
        alone = model(text[:1, :4])
        hidden = model.gpt(text[1:])
    assert torch.allclose(both[:1], alone, atol=1e-5)
    assert torch.allclose(both[1], model.labels(hidden[0, -1]), atol=1e-5)
    model(text).sum().backward()
    assert model.gpt.symbol_embedding is not None
    assert (model.gpt.symbol_embedding.weight.grad != 0).any(1).all()


@torch.no_grad()
def test_recorded_weights_are_causal_and_named() -> None:
    model, record = writer().gpt, Recorder()
    plain = model(ids(1, 9))
    assert torch.allclose(model(ids(1, 9), record=record), plain, atol=1e-5)
    assert record.names == ["decoder.0.self", "decoder.1.self"]
    weights = record["decoder.1.self"]
    assert weights.shape == (1, 2, 9, 9)
    assert torch.allclose(weights.sum(-1), torch.ones(1, 2, 9), atol=1e-5)
    assert weights.triu(1).abs().max() == 0


def test_fresh_weights_guess_nearly_evenly() -> None:
    torch.manual_seed(0)
    model = build_gpt(GptConfig(size="micro"), "language", 100).eval()
    with torch.no_grad():
        spread = model(ids(2, 30)).log_softmax(-1).exp()
    assert spread.max() < 0.05


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("model.heads=5", "model.heads: 5 heads do not divide d_model 192"),
        (
            "model.max_length=1",
            "model.max_length: a context window of one token leaves nothing to predict the next one from",
        ),
        ("train.smoothing=0.1", "train.smoothing: label smoothing is not supported for language models"),
        ("tokenizer.kind=letters", 'tokenizer.kind: "letters" is not a choice'),
    ],
)
def test_impossible_recipes_are_refused_by_their_key(given: str, sentence: str) -> None:
    with pytest.raises(RecipeError) as refused:
        load_recipe("gpt", parse_assignments([given]))
    assert sentence in str(refused.value)


def test_a_bert_is_not_asked_for_the_next_token() -> None:
    recipe = load_recipe("pretraining")
    with pytest.raises(ValueError, match="attends to the following tokens"):
        build_bert(recipe.model, "language", 40, 0)  # type: ignore[union-attr, arg-type]
    with pytest.raises(RecipeError, match=r"train\.language_loss"):
        load_recipe("sentiment", {"train.language_loss": 0.5})
    assert Gpt.padding == PADDING
