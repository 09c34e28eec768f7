"""Going on with a text: the same in any company and however it is told; seeds, limits, stops, windows."""

import numpy as np
import pytest
import torch
from torch import nn

from regard import tokenization
from regard.config.models import GptConfig
from regard.decoding import DecodingConstraints, SamplingConfig
from regard.decoding.generator import GenerationConfig, Generator, Unfolding
from regard.decoding.sampling import draw, within_share
from regard.errors import RegardError
from regard.nn.build import build_gpt
from regard.nn.ngram import count_ngrams
from regard.tokenization import Tokenizer

CORPUS = "the quick brown fox jumps over the lazy dog; größer, ja. "
PROMPTS = ["the ", "quick", "f", "brow", "over the lazy d", "dog", "ß"]


def gpt(vocabulary: int, **changes: object) -> nn.Module:
    torch.manual_seed(0)
    shape = {"layers": 2, "d_model": 32, "heads": 2, "d_ff": 64, "max_length": 16}
    model = build_gpt(GptConfig(**{**shape, **changes}), "language", vocabulary).eval()  # type: ignore[arg-type]
    for each in model.parameters():
        nn.init.normal_(each, std=0.3)
    return model


def plain(writer: Generator) -> nn.Module:
    """The model that a writer of `made` has laid out for the kernels."""
    return gpt(writer.tokenizer.size)


def made(kind: str, tokens: str = "characters", **changes: object) -> Generator:
    tokenizer = tokenization.train(tokens, [CORPUS], size=280)
    if kind == "ngram":
        model: nn.Module = count_ngrams([np.array(tokenizer.encode(CORPUS * 3))], tokenizer.size, 3)
        return Generator(model, tokenizer, None, torch.device("cpu"))
    model = gpt(tokenizer.size, **changes)
    return Generator(model, tokenizer, model.gpt.max_length, torch.device("cpu"))


@pytest.mark.parametrize("tokens", ["characters", "bytes", "gpt"])
@pytest.mark.parametrize("kind", ["gpt", "plain", "ngram"])
def test_a_batch_of_prompts_is_written_as_each_alone_and_told_as_it_is_written(kind: str, tokens: str) -> None:
    writer = made("ngram" if kind == "ngram" else "gpt", tokens)
    if kind == "plain":
        writer.model = plain(writer)  # type: ignore[assignment]
    for config in (
        GenerationConfig(tokens=40, sampling=SamplingConfig(5)),  # longer than the window of 16
        GenerationConfig(
            tokens=25, sampling=SamplingConfig(2, 0.7, top_k=5, top_p=0.9), repetition=1.3, stop=("o", "th")
        ),
        GenerationConfig(tokens=12, beam=3, stop=(" ",)),
        GenerationConfig(tokens=20, sampling=SamplingConfig(5), batch_size=2),
    ):
        together = writer.write(PROMPTS, config)
        assert together == [writer.write([prompt], config)[0] for prompt in PROMPTS]
        assert [each.text for each in together] == [
            "".join(writer.stream(prompt, config)) for prompt in PROMPTS
        ]
        assert [each.prompt for each in together] == PROMPTS
        assert all(1 <= each.tokens <= config.tokens for each in together)


def test_the_same_seed_gives_the_same_text_and_another_another() -> None:
    writer = made("gpt")
    texts = [
        writer.write(["the "], GenerationConfig(tokens=30, sampling=SamplingConfig(seed)))[0].text
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("position", ["learned", "rotary", "alibi", "relative", "sinusoidal"])
def test_a_window_slides_with_every_position_scheme(position: str) -> None:
    found = made("gpt", position=position).write(["the q", "brown"], GenerationConfig(tokens=50))
    assert [(each.tokens, each.why) for each in found] == [(50, "length")] * 2


def test_beam_1_is_greedy_and_a_wider_one_finds_no_worse() -> None:
    writer = made("gpt")
    ids = writer.tokenizer.encode("the qui")
    with torch.no_grad():
        for _ in range(8):
            scores = plain(writer)(torch.tensor([ids]))[0, -1].index_fill(0, torch.arange(4), -torch.inf)
            ids.append(int(scores.argmax()))
    greedy = writer.write(["the qui"], GenerationConfig(tokens=8, beam=1))[0].text
    assert greedy == writer.tokenizer.decode(ids[-8:])
    wider = writer.write(["the qui"], GenerationConfig(tokens=8, beam=8))[0].text
    assert share(writer, "the qui", wider) >= share(writer, "the qui", greedy) - 1e-5


def share(writer: Generator, prompt: str, said: str) -> float:
    ids = torch.tensor([writer.tokenizer.encode(prompt + said)])
    first = len(writer.tokenizer.encode(prompt))
    with torch.no_grad():
        scores = plain(writer)(ids).index_fill(-1, torch.arange(4), -torch.inf).log_softmax(-1)
    return float(scores[0, first - 1 : -1].gather(1, ids[0, first:, None]).sum())


def test_only_the_likeliest_are_drawn() -> None:
    scores = torch.tensor([[0.5, 0.25, 0.15, 0.1]]).log()
    assert within_share(scores, 0.7).isfinite().tolist() == [[True, True, False, False]]
    assert within_share(scores, 0.1).isfinite().tolist() == [[True, False, False, False]]
    chances = [torch.Generator().manual_seed(seed) for seed in range(60)]
    drawn, _ = draw(scores.expand(60, -1), chances, SamplingConfig(0, top_k=2))
    assert set(drawn.tolist()) == {0, 1}
    counts = torch.zeros(4)
    chances = [torch.Generator().manual_seed(seed) for seed in range(2000)]
    for token in draw(scores.expand(2000, -1), chances, SamplingConfig(0))[0]:
        counts[token] += 1
    assert torch.allclose(counts / 2000, scores.exp()[0], atol=0.04)


def test_what_was_said_costs_more_to_say_again() -> None:
    limits = DecodingConstraints(None, 9, (), repetition=2.0)
    scores = torch.tensor([[1.0, -1.0, 1.0, -1.0] + [0.0] * 6])
    read, written = torch.tensor([[0, 0]]), torch.tensor([[3]])
    found = limits.apply(scores, written, [None], read)
    assert found[0, :4].tolist() == [0.5, -1.0, 1.0, -2.0]
    repeating, other = (
        made("gpt").write(["the the "], GenerationConfig(tokens=40, beam=1, repetition=penalty))[0].text
        for penalty in (1.0, 2.0)
    )
    assert len(set(other)) > len(set(repeating))


def unfolded(tokenizer: Tokenizer, said: str, *stop: str, tokens: int = 99) -> tuple[list[str], str]:
    text_so_far = Unfolding("", tokenizer, GenerationConfig(tokens=tokens, stop=stop))
    pieces = []
    for token in [*tokenizer.encode(said), tokenizer.end]:
        pieces.append(text_so_far.add(token))
        if text_so_far.whole is not None:
            break
    assert text_so_far.whole is not None
    assert "".join(pieces) == text_so_far.whole.text
    return pieces, text_so_far.whole.why


def test_nothing_is_told_that_may_yet_be_taken_back() -> None:
    letters = tokenization.train("bytes", ["a"])
    assert unfolded(letters, "aßb") == (["a", "", "ß", "b", ""], "end")  # not half a letter
    assert unfolded(letters, "on the end", "the") == (["o", "n", " ", "", "", ""], "stop")
    assert unfolded(letters, "that this", "the") == (["", "", "tha", "", "t ", "", "", "thi", "s", ""], "end")
    assert unfolded(letters, "tht", "the", tokens=3) == (["", "", "tht"], "length")
    assert unfolded(letters, "aß", tokens=2) == (["a", "\ufffd"], "length")  # it was cut there


@pytest.mark.parametrize(
    ("prompts", "config", "sentence"),
    [
        ([""], {}, "the prompt is empty; there is nothing to go on with"),
        (["the", ""], {}, "prompt 2 is empty"),
        (["x" * 17], {}, "the prompt has 17 tokens, the model's window 16; give the end of it only"),
        (["the Ä"], {}, "the prompt has 'Ä', a character that the model never saw"),
        (["the"], {"stop": ("fox", "Ä!")}, "the stop string 'Ä!' cannot occur: the model never saw 'Ä'"),
        (["the"], {"stop": ("",)}, "a stop string is empty"),
        (["the"], {"tokens": 0}, "tokens: 0 is out of range; allowed is a whole number from 1 to 1,000,000"),
        (["the"], {"repetition": 0.0}, "a repetition penalty is above 0"),
    ],
)
def test_what_cannot_be_gone_on_with_is_told_in_a_sentence(
    prompts: list[str], config: dict[str, object], sentence: str
) -> None:
    with pytest.raises(RegardError) as told:
        made("gpt").write(prompts, GenerationConfig(**config))  # type: ignore[arg-type]
    assert sentence in str(told.value)


def test_chance_is_told_what_is_wrong_with_it() -> None:
    with pytest.raises(RegardError, match="top-p is a share"):
        SamplingConfig(1, top_p=0.0)


def test_a_step_costs_the_same_late_in_a_text() -> None:
    """Counted, not timed: a step reads one token, whatever was written before it."""
    writer = made("gpt", max_length=64)
    model, seen = gpt(writer.tokenizer.size, max_length=64), []
    writer.module = model
    model.gpt.decoder.register_forward_hook(lambda _, given, __: seen.append(given[0].size(1)))
    writer.write(["the q"], GenerationConfig(tokens=40))
    assert seen == [4] + [1] * 40
