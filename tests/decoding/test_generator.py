"""Text generation: independent of the batch, streamed as written; seeds, constraints, stop strings, context window."""

import numpy as np
import pytest
import torch
from torch import nn

from regard import tokenization
from regard.config.models import GptConfig
from regard.decoding import DecodingConstraints, SamplingConfig
from regard.decoding.generator import GenerationConfig, Generator, IncrementalDetokenizer
from regard.decoding.sampling import sample_tokens, top_p_filter
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
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def reference_model(generator: Generator) -> nn.Module:
    """The same model as in `make_generator`, not prepacked for the native kernels."""
    return gpt(generator.tokenizer.size)


def make_generator(kind: str, tokens: str = "characters", **changes: object) -> Generator:
    tokenizer = tokenization.train(tokens, [CORPUS], size=280)
    if kind == "ngram":
        model: nn.Module = count_ngrams([np.array(tokenizer.encode(CORPUS * 3))], tokenizer.size, 3)
        return Generator(model, tokenizer, None, torch.device("cpu"))
    model = gpt(tokenizer.size, **changes)
    return Generator(model, tokenizer, model.gpt.max_length, torch.device("cpu"))


@pytest.mark.parametrize("tokens", ["characters", "bytes", "gpt"])
@pytest.mark.parametrize("kind", ["gpt", "plain", "ngram"])
def test_completions_do_not_depend_on_the_batch_and_equal_the_streamed_text(kind: str, tokens: str) -> None:
    generator = make_generator("ngram" if kind == "ngram" else "gpt", tokens)
    if kind == "plain":
        generator.model = reference_model(generator)  # type: ignore[assignment]
    for config in (
        GenerationConfig(tokens=40, sampling=SamplingConfig(5)),  # longer than the window of 16
        GenerationConfig(
            tokens=25, sampling=SamplingConfig(2, 0.7, top_k=5, top_p=0.9), repetition=1.3, stop=("o", "th")
        ),
        GenerationConfig(tokens=12, beam=3, stop=(" ",)),
        GenerationConfig(tokens=20, sampling=SamplingConfig(5), batch_size=2),
    ):
        together = generator.complete(PROMPTS, config)
        assert together == [generator.complete([prompt], config)[0] for prompt in PROMPTS]
        assert [completion.text for completion in together] == [
            "".join(generator.stream(prompt, config)) for prompt in PROMPTS
        ]
        assert [completion.prompt for completion in together] == PROMPTS
        assert all(1 <= completion.tokens <= config.tokens for completion in together)


def test_the_seed_decides_the_text() -> None:
    generator = make_generator("gpt")
    texts = [
        generator.complete(["the "], GenerationConfig(tokens=30, sampling=SamplingConfig(seed)))[0].text
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("position", ["learned", "rotary", "alibi", "relative", "sinusoidal"])
def test_the_context_window_slides_with_every_position_scheme(position: str) -> None:
    completions = make_generator("gpt", position=position).complete(
        ["the q", "brown"], GenerationConfig(tokens=50)
    )
    assert [(completion.tokens, completion.why) for completion in completions] == [(50, "length")] * 2


def test_beam_1_is_greedy_and_a_wider_one_finds_no_worse() -> None:
    generator = make_generator("gpt")
    ids = generator.tokenizer.encode("the qui")
    with torch.no_grad():
        for _ in range(8):
            scores = reference_model(generator)(torch.tensor([ids]))[0, -1].index_fill(
                0, torch.arange(4), -torch.inf
            )
            ids.append(int(scores.argmax()))
    greedy = generator.complete(["the qui"], GenerationConfig(tokens=8, beam=1))[0].text
    assert greedy == generator.tokenizer.decode(ids[-8:])
    wider = generator.complete(["the qui"], GenerationConfig(tokens=8, beam=8))[0].text
    assert log_probability(generator, "the qui", wider) >= log_probability(generator, "the qui", greedy) - 1e-5


def log_probability(generator: Generator, prompt: str, continuation: str) -> float:
    ids = torch.tensor([generator.tokenizer.encode(prompt + continuation)])
    first = len(generator.tokenizer.encode(prompt))
    with torch.no_grad():
        scores = reference_model(generator)(ids).index_fill(-1, torch.arange(4), -torch.inf).log_softmax(-1)
    return float(scores[0, first - 1 : -1].gather(1, ids[0, first:, None]).sum())


def test_top_k_and_top_p_sample_only_the_most_likely_tokens() -> None:
    scores = torch.tensor([[0.5, 0.25, 0.15, 0.1]]).log()
    assert top_p_filter(scores, 0.7).isfinite().tolist() == [[True, True, False, False]]
    assert top_p_filter(scores, 0.1).isfinite().tolist() == [[True, False, False, False]]
    generators = [torch.Generator().manual_seed(seed) for seed in range(60)]
    tokens, _ = sample_tokens(scores.expand(60, -1), generators, SamplingConfig(0, top_k=2))
    assert set(tokens.tolist()) == {0, 1}
    counts = torch.zeros(4)
    generators = [torch.Generator().manual_seed(seed) for seed in range(2000)]
    for token in sample_tokens(scores.expand(2000, -1), generators, SamplingConfig(0))[0]:
        counts[token] += 1
    assert torch.allclose(counts / 2000, scores.exp()[0], atol=0.04)


def test_the_repetition_penalty_covers_prompt_and_generated_tokens() -> None:
    constraints = DecodingConstraints(None, 9, (), repetition=2.0)
    scores = torch.tensor([[1.0, -1.0, 1.0, -1.0] + [0.0] * 6])
    prompt, generated = torch.tensor([[0, 0]]), torch.tensor([[3]])
    penalized = constraints.apply(scores, generated, [None], prompt)
    assert penalized[0, :4].tolist() == [0.5, -1.0, 1.0, -2.0]
    repetitive, varied = (
        make_generator("gpt")
        .complete(["the the "], GenerationConfig(tokens=40, beam=1, repetition=penalty))[0]
        .text
        for penalty in (1.0, 2.0)
    )
    assert len(set(varied)) > len(set(repetitive))


def detokenized(tokenizer: Tokenizer, text: str, *stop: str, tokens: int = 99) -> tuple[list[str], str]:
    detokenizer = IncrementalDetokenizer("", tokenizer, GenerationConfig(tokens=tokens, stop=stop))
    pieces = []
    for token in [*tokenizer.encode(text), tokenizer.end]:
        pieces.append(detokenizer.add(token))
        if detokenizer.completion is not None:
            break
    assert detokenizer.completion is not None
    assert "".join(pieces) == detokenizer.completion.text
    return pieces, detokenizer.completion.why


def test_streamed_pieces_hold_back_incomplete_characters_and_stop_string_prefixes() -> None:
    letters = tokenization.train("bytes", ["a"])
    assert detokenized(letters, "aßb") == (["a", "", "ß", "b", ""], "end")  # no incomplete character
    assert detokenized(letters, "on the end", "the") == (["o", "n", " ", "", "", ""], "stop")
    assert detokenized(letters, "that this", "the") == (
        ["", "", "tha", "", "t ", "", "", "thi", "s", ""],
        "end",
    )
    assert detokenized(letters, "tht", "the", tokens=3) == (["", "", "tht"], "length")
    assert detokenized(letters, "aß", tokens=2) == (["a", "\ufffd"], "length")  # truncated within a character


@pytest.mark.parametrize(
    ("prompts", "config", "message"),
    [
        ([""], {}, "the prompt is empty; give at least one token to continue from"),
        (["the", ""], {}, "prompt 2 is empty"),
        (["x" * 17], {}, "the prompt has 17 tokens, more than the model's window of 16; give only its end"),
        (["the Ä"], {}, "the prompt has 'Ä', a character that is not in the model's vocabulary"),
        (
            ["the"],
            {"stop": ("fox", "Ä!")},
            "the stop string 'Ä!' cannot occur: 'Ä' is not in the model's vocabulary",
        ),
        (["the"], {"stop": ("",)}, "a stop string is empty"),
        (["the"], {"tokens": 0}, "tokens: 0 is out of range; allowed is a whole number from 1 to 1,000,000"),
        (["the"], {"repetition": 0.0}, "repetition: 0 is out of range; allowed is above 0"),
    ],
)
def test_invalid_prompts_and_settings_are_refused(
    prompts: list[str], config: dict[str, object], message: str
) -> None:
    with pytest.raises(RegardError) as error:
        make_generator("gpt").complete(prompts, GenerationConfig(**config))  # type: ignore[arg-type]
    assert message in str(error.value)


def test_an_invalid_top_p_is_refused() -> None:
    with pytest.raises(RegardError, match="top_p: 0 is out of range; allowed is above 0 and at most 1"):
        SamplingConfig(1, top_p=0.0)


def test_a_generation_step_reads_one_token_at_any_length() -> None:
    """Counted, not timed: with the KV cache a step reads one token, whatever was generated before."""
    generator = make_generator("gpt", max_length=64)
    model, lengths = gpt(generator.tokenizer.size, max_length=64), []
    generator.module = model
    model.gpt.decoder.register_forward_hook(lambda _, inputs, __: lengths.append(inputs[0].size(1)))
    generator.complete(["the q"], GenerationConfig(tokens=40))
    assert lengths == [4] + [1] * 40
