"""The decoder in C against `Transformer.step` in PyTorch, and rows that do not depend on their neighbours."""

import pytest
import torch
from torch import Tensor, nn

from regard.config import TransformerModel
from regard.decoding.search import best_of_rows
from regard.models.build import build
from regard.models.lean import LeanState, laid_out
from regard.models.transformer import Transformer
from regard.native import address, kernels, library
from regard.text import Tokenizer

pytestmark = pytest.mark.skipif(kernels() is None, reason=library()[1])

WORDS = 75


def model(**changes: object) -> Transformer:
    torch.manual_seed(1)
    settings = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 32, "heads": 4, "d_ff": 48, **changes}
    made = build(TransformerModel(**settings), WORDS, WORDS, Tokenizer.padding)  # type: ignore[arg-type]
    for each in made.parameters():
        nn.init.normal_(each, std=0.3)
    assert isinstance(made, Transformer)
    return made.eval()


def sources() -> Tensor:
    source = torch.randint(4, WORDS, (5, 9), generator=torch.Generator().manual_seed(2))
    source[1, 6:] = source[3, 3:] = Tokenizer.padding
    return source


@torch.inference_mode()
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
@pytest.mark.parametrize("share", ["all", "none"])
def test_steps_equal_those_in_pytorch_whatever_rows_go_on(norm: str, position: str, share: str) -> None:
    made = model(norm=norm, position=position, share=share)
    lean, plain = made.start(sources()), made.start(sources(), watched=True)
    assert isinstance(lean, LeanState)
    assert not isinstance(plain, LeanState)
    tokens, chance = torch.zeros(5, dtype=torch.long), torch.Generator().manual_seed(3)
    for number in range(40):  # past the place for 32 steps
        ours, lean = made.step(tokens, lean)
        theirs, plain = made.step(tokens, plain)
        assert torch.allclose(ours, theirs, atol=2e-5), f"step {number}"
        wanted = {0: 20, 10: 8, 25: 12}.get(number, len(tokens))  # more rows, fewer, more again
        rows = torch.randint(0, len(tokens), (wanted,), generator=chance)
        tokens = torch.randint(4, WORDS, (wanted,), generator=chance)
        lean, plain = lean.select(rows), plain.select(rows)


@pytest.mark.parametrize(
    "changes", [{"activation": "gelu"}, {"position": "rotary"}, {"d_model": 12, "heads": 3}]
)
def test_what_the_kernel_does_not_know_is_left_to_pytorch(changes: dict[str, object]) -> None:
    made = model(**changes)
    with torch.inference_mode():
        state = made.start(sources())
        assert not isinstance(state, LeanState)
        assert made.step(torch.zeros(5, dtype=torch.long), state)[0].shape == (5, WORDS)


def test_changed_weights_are_seen() -> None:
    made = model()
    tokens = torch.zeros(5, dtype=torch.long)
    with torch.inference_mode():
        before, _ = made.step(tokens, made.start(sources()))
    with torch.no_grad():
        made.decoder.blocks[0].feed_forward.sublayer.widen.weight.mul_(2)  # type: ignore[union-attr,operator]
    with torch.inference_mode():
        after, _ = made.step(tokens, made.start(sources()))
        plain, _ = made.step(tokens, made.start(sources(), watched=True))
    assert not torch.allclose(before, after)
    assert torch.allclose(after, plain, atol=2e-5)


@pytest.mark.parametrize(("inside", "out"), [(8, 16), (32, 75), (48, 130)])
@pytest.mark.parametrize("relu", [0, 1])
def test_a_product_has_the_same_bits_beside_any_rows(inside: int, out: int, relu: int) -> None:
    native = kernels()
    assert native is not None
    torch.manual_seed(5)
    weight, bias, x = torch.randn(out, inside), torch.randn(out), torch.randn(203, inside)
    panels = laid_out(weight)

    def product(rows: Tensor) -> Tensor:
        y = torch.empty(len(rows), out)
        native.multiply(
            address(rows), len(rows), address(panels), address(bias), inside, out, out, relu, address(y)
        )
        return y

    whole = product(x)
    twin = x @ weight.T + bias
    assert torch.allclose(whole, twin.relu() if relu else twin, atol=1e-4)
    for first, last in [(0, 1), (7, 9), (10, 13), (20, 24), (31, 36), (40, 46), (50, 149), (202, 203)]:
        assert torch.equal(product(x[first:last].contiguous()), whole[first:last])


@pytest.mark.parametrize(("words", "wanted"), [(5, 5), (40, 10), (1000, 10), (1003, 1)])
def test_the_best_of_rows(words: int, wanted: int) -> None:
    torch.manual_seed(6)
    scores = torch.randn(17, words)
    scores[3] = scores[3].sort().values
    scores[4, : words // 2] = -torch.inf
    best, tokens, norms = best_of_rows(scores, wanted)
    theirs, _ = scores.topk(wanted)
    assert torch.equal(best, theirs)
    assert torch.equal(scores.gather(1, tokens), best)
    assert torch.allclose(norms, scores.logsumexp(-1), atol=1e-5)


def test_of_equal_scores_the_first_word_is_taken() -> None:
    scores = torch.zeros(1, 100)
    scores[0, 60] = 1.0
    _, tokens, _ = best_of_rows(scores, 4)
    assert tokens.tolist() == [[60, 0, 1, 2]]
