"""The mutation grid: whatever is changed in a model is honoured or refused by the engine, never ignored."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, cast

import pytest
import torch
from support.kernel_dropout import kernel_dropout
from support.mutations import DROPOUT_MUTATIONS, MUTATIONS, PADDING, WORDS, Change, Mutation, small
from support.padded_calls import run_padded
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.utils.checkpoint import checkpoint

from regard.config.models import BertConfig, GptConfig, VitConfig
from regard.data.batches import Batch, Batches
from regard.decoding import BeamSearchConfig, DecodingConstraints, Hypothesis, TranslationPipeline, search
from regard.decoding.generator import GenerationConfig, Generator
from regard.engine import Plan, Unsupported, plan
from regard.engine.forward import body_of, gpt_hidden
from regard.engine.generate import native_gpt
from regard.engine.plan import supports
from regard.engine.search import native_search
from regard.nn import Packed
from regard.nn.bert import BertClassifier
from regard.nn.build import build_bert, build_gpt, build_vit
from regard.nn.seq2seq import Decodable
from regard.nn.transformer import Transformer
from regard.tokenization import CharacterTokenizer, Tokenizer
from regard.training.objectives import Seq2SeqObjective, SmoothedKL

Plain = Callable[[], AbstractContextManager[None]]
LIMITS = DecodingConstraints(
    Tokenizer.begin, Tokenizer.end, (Tokenizer.begin, Tokenizer.padding, Tokenizer.unknown)
)
SENTENCES = [[5, 6, 7, 8], [9], [20, 30, 40, 50, 60, 70, 74, 4, 5], [33, 44, 55]]


class NoText:
    """Ids are all that is searched here."""

    begin, end, padding, unknown = Tokenizer.begin, Tokenizer.end, Tokenizer.padding, Tokenizer.unknown


def batch_of() -> Batch:
    torch.manual_seed(4)
    lengths = [(3, 5), (9, 2), (1, 1), (7, 7), (12, 20), (2, 6)]
    pairs = [tuple(torch.randint(4, WORDS, (each,)).tolist() for each in both) for both in lengths]
    (batch,) = Batches.of_pairs(pairs, 100_000, 400)  # type: ignore[arg-type]
    return batch


BATCH = batch_of()
SOURCE, TARGET, LABELS = (each.padded(PADDING) for each in (BATCH.source, BATCH.target, BATCH.labels))


def learned(model: Transformer) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    loss = Seq2SeqObjective(model, PADDING, 0.1)(BATCH)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach(), {
        name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None
    }


def assert_same_step(ours: tuple[Tensor, dict[str, Tensor]], theirs: tuple[Tensor, dict[str, Tensor]]) -> None:
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-4, atol=0)
    assert ours[1].keys() == theirs[1].keys()
    for name, each in theirs[1].items():
        tolerance = 1e-3 * max(float(each.abs().max()), 1e-2)
        torch.testing.assert_close(ours[1][name], each, rtol=0, atol=tolerance, msg=name)


def searched(model: nn.Module) -> list[list[Hypothesis]]:
    """By the translator, which chooses between the native search and the plain one."""
    translator = TranslationPipeline(model, NoText(), NoText())  # type: ignore[arg-type]
    return translator.search_ids(
        [list(each) for each in SENTENCES], BeamSearchConfig(beam=3, nbest=2, max_length=12)
    )


def searched_plainly(model: nn.Module) -> list[list[Hypothesis]]:
    options = BeamSearchConfig(beam=3, nbest=2, max_length=12)
    found = (
        search(cast(Decodable, model), torch.tensor([[*ids, Tokenizer.end]]), LIMITS, options)
        for ids in SENTENCES
    )
    return [each[0] for each in found]


def assert_same_search(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> None:
    assert [[each.ids for each in one] for one in ours] == [[each.ids for each in one] for one in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=1e-4)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
@pytest.mark.parametrize("warm", [True, False], ids=["after use", "before use"])
def test_a_changed_model_trains_as_plain_pytorch(mutation: Mutation, warm: bool, plain: Plain) -> None:
    model = small().train()
    before = learned(model) if warm else None
    mutation.change(model)
    with mutation.during(model):
        found = plan(model)
        assert isinstance(found, Plan) == mutation.honoured, found
        ours = learned(model)
        with plain():
            theirs = learned(model)
    assert_same_step(ours, theirs)
    if before is not None and mutation.both and "shar" not in mutation.name and "frozen" not in mutation.name:
        changed = ours[0] != before[0]
        assert changed or mutation.name in UNSEEN, "the mutation changes nothing, so this test could not fail"


UNSEEN = {
    "FLOP counter",
    "default device mode",
    "module.compile",
    "weight that is not contiguous",
    "weight norm on query",
}
"""Changes that do not change the loss; weight norm has other parameters, whose gradients are compared."""


@pytest.mark.parametrize("mutation", [each for each in MUTATIONS if each.both], ids=lambda each: each.name)
@pytest.mark.parametrize("warm", [True, False], ids=["after use", "before use"])
def test_a_changed_model_translates_as_the_plain_search(mutation: Mutation, warm: bool) -> None:
    model = small().eval()
    if warm:
        searched(model)
    mutation.change(model)
    model.eval()
    with mutation.during(model):
        assert_same_search(searched(model), searched_plainly(model))


@pytest.mark.parametrize("name", list(DROPOUT_MUTATIONS))
def test_a_layer_with_another_dropout_has_it(name: str) -> None:
    """The loss and gradient are those of the modules with the kernels' masks."""
    model = small(dropout=0.2, attention_dropout=0.2).train()
    learned(model)
    DROPOUT_MUTATIONS[name](model)
    if name == "a subclass of nn.Dropout":
        assert isinstance(plan(model), Unsupported)
        return
    assert supports(model, "token loss")
    torch.manual_seed(6)
    ours = learned(model)
    twin = copy.deepcopy(model)
    torch.manual_seed(6)
    with kernel_dropout(twin, SOURCE != PADDING, TARGET != PADDING):
        loss = SmoothedKL(WORDS, PADDING, 0.1)(twin(SOURCE, TARGET), LABELS)
    twin.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    theirs = {key: each.grad for key, each in twin.named_parameters() if each.grad is not None}
    assert_same_step(ours, (loss.detach(), theirs))


def test_autocast_runs_the_modules() -> None:
    model = small().train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert plan(model) == Unsupported("autocast is on; the kernels compute in float32")


def test_functorch_runs_the_modules(plain: Plain) -> None:
    """torch.func.grad of a functional call gives the gradient of the modules, not zeros."""
    model = small().train()
    learned(model)
    parameters = {name: each.detach() for name, each in model.named_parameters()}

    def loss(given: dict[str, Tensor]) -> Tensor:
        logits = functional_call(model, given, (SOURCE, TARGET))
        assert isinstance(plan(model), Unsupported)
        return SmoothedKL(WORDS, PADDING, 0.1)(logits, LABELS)

    found = grad(loss)(parameters)
    with plain():
        _, theirs = learned(model)
    for name, each in theirs.items():
        torch.testing.assert_close(found[name], each, rtol=1e-3, atol=1e-3 * max(float(each.abs().max()), 1e-2))


def test_a_functional_call_with_other_weights_uses_them(plain: Plain) -> None:
    model = small().train()
    learned(model)
    objective = Seq2SeqObjective(model, PADDING, 0.1)
    other = {name: each.detach() * 1.2 for name, each in model.named_parameters()}

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self) -> Tensor:
            return objective(BATCH)

    given = {f"model.{name}": each for name, each in other.items()}
    ours = functional_call(Loss(), given, ())
    with plain():
        theirs = functional_call(Loss(), given, ())
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=0)


def test_compile_and_export_see_modules_only() -> None:
    model = small().eval()
    exported = torch.export.export(model, (SOURCE, TARGET))
    torch.testing.assert_close(exported.module()(SOURCE, TARGET), model(SOURCE, TARGET), rtol=1e-4, atol=1e-4)
    compiled = torch.compile(model, backend="eager")
    assert plan(cast(nn.Module, compiled)) == Unsupported("the kernels do not implement OptimizedModule")


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing_of_a_whole_step(reentrant: bool, plain: Plain) -> None:
    model = small(dropout=0.2).train()
    torch.manual_seed(6)
    expected = learned(model)
    model.zero_grad()
    objective = Seq2SeqObjective(model, PADDING, 0.1)
    trigger = torch.ones((), requires_grad=True)
    torch.manual_seed(6)
    loss = checkpoint(lambda one: objective(BATCH) * one, trigger, use_reentrant=reentrant)
    loss.backward()
    found = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    assert_same_step((loss.detach(), found), expected)


def test_second_derivatives_are_refused() -> None:
    model = small().train()
    loss = Seq2SeqObjective(model, PADDING, 0.1)(BATCH)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(loss, list(model.parameters()), create_graph=True)


@pytest.mark.parametrize("side", ["source", "target", "labels"])
@pytest.mark.parametrize("wrong", [WORDS, -1, 2**40])
def test_ids_outside_the_vocabulary_are_refused(side: str, wrong: int) -> None:
    model = small().train()
    ids = {name: getattr(BATCH, name) for name in ("source", "target", "labels")}
    values = ids[side].values.clone()
    values[7] = wrong
    ids[side] = ids[side].like(values)
    with pytest.raises(ValueError, match=f"token id {wrong} is outside the vocabulary of {WORDS}"):
        Seq2SeqObjective(model, PADDING, 0.1)(Batch(**ids, tokens=BATCH.tokens, sentences=()))
    native = native_search(model.eval(), 256)
    assert native is not None
    translator = TranslationPipeline(model, NoText(), NoText())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"token id {wrong} is outside the vocabulary of {WORDS}"):
        translator.search_ids([[5, 6, wrong]])


def test_a_frozen_translator_is_checked_once_and_another_at_every_call() -> None:
    model = small().eval()
    checked, frozen = (TranslationPipeline(model, NoText(), NoText()) for _ in range(2))  # type: ignore[arg-type]
    frozen.freeze()
    options = BeamSearchConfig(beam=3, nbest=2, max_length=12)
    before = [each.search_ids(SENTENCES, options) for each in (checked, frozen)]
    model.decoder.blocks[0].feed_forward.sublayer.fc1.weight.data.mul_(3)  # type: ignore[union-attr,operator]
    assert before[0] == before[1] == frozen.search_ids(SENTENCES, options)
    assert_same_search(checked.search_ids(SENTENCES, options), searched_plainly(model))
    assert checked.search_ids(SENTENCES, options) != before[0]


def gpt(**settings: object) -> nn.Module:
    torch.manual_seed(0)
    shape = {"layers": 2, "d_model": 32, "heads": 2, "d_ff": 64, "max_length": 16, "dropout": 0.0}
    made = build_gpt(GptConfig(**{**shape, **settings}), "language", 50).eval()  # type: ignore[arg-type]
    for each in made.parameters():
        torch.nn.init.normal_(each, std=0.3)
    return made


GPT_MUTATIONS: dict[str, Change] = {
    "forward hook on attention": lambda m: m.gpt.decoder.blocks[0].self_attention.register_forward_hook(lambda _, __, out: out * 1.5),
    "forward hook on the model": lambda m: m.gpt.register_forward_hook(lambda _, __, out: out * 1.5),
    "weights written through .data": lambda m: m.gpt.decoder.blocks[0].feed_forward.sublayer.fc1.weight.data.mul_(2),
    "one number written through .data": lambda m: m.gpt.token_embedding.weight.data[3].add_(1.0),
    "heads": lambda m: setattr(m.gpt.decoder.blocks[1].self_attention.sublayer.attention, "heads", 4),
    "patched embed": lambda m: setattr(m.gpt, "embed", lambda ids: 2 * type(m.gpt).embed(m.gpt, ids)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(GPT_MUTATIONS))
def test_a_changed_gpt_gives_what_its_modules_give(name: str, plain: Plain) -> None:
    model = gpt()
    ids = torch.randint(50, (3, 9), generator=torch.Generator().manual_seed(1))
    native_gpt(model)
    packed = Packed.from_padded(ids, torch.ones_like(ids, dtype=torch.bool))
    gpt_hidden(model.gpt, packed)  # type: ignore[arg-type]
    GPT_MUTATIONS[name](model)  # type: ignore[arg-type]
    with torch.no_grad():
        ours = gpt_hidden(model.gpt, packed)  # type: ignore[arg-type]
        theirs = model.gpt(ids)  # type: ignore[operator]
        torch.testing.assert_close(ours.values, theirs.flatten(0, 1), rtol=1e-4, atol=1e-4)
        runner = native_gpt(model) or model
        scores, _ = runner.step(ids[:, 5], runner.start(ids[:, :5]))  # type: ignore[operator,union-attr]
        expected, _ = model.step(ids[:, 5], model.start(ids[:, :5]))  # type: ignore[operator]
        torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-4)


def test_a_writer_sees_weights_that_change_between_two_calls(plain: Plain) -> None:
    model = gpt()
    tokenizer = CharacterTokenizer("characters", "".join(chr(97 + each) for each in range(46)))
    writer = Generator(model, tokenizer, 16, torch.device("cpu"))
    config = GenerationConfig(tokens=8, beam=2)
    first = writer.complete(["ab"], config)
    model.gpt.token_embedding.weight.data.copy_(model.gpt.token_embedding.weight.data.flip(0))  # type: ignore[union-attr,operator]
    second = writer.complete(["ab"], config)
    with plain():
        expected = writer.complete(["ab"], config)
    assert second == expected
    assert second != first


def heads() -> dict[str, tuple[nn.Module, tuple[Tensor, ...]]]:
    """Every head that the engine splits into body and head, with inputs."""
    torch.manual_seed(0)
    ids = torch.randint(1, 50, (3, 9)).masked_fill(torch.arange(9) >= torch.tensor([[9], [4], [1]]), 0)
    sizes = {"layers": 2, "d_model": 32, "heads": 2, "d_ff": 48}
    bert = BertConfig(max_length=16, **sizes)  # type: ignore[arg-type]
    vit = VitConfig(height=8, width=8, channels=1, patch=4, **sizes)  # type: ignore[arg-type]
    made: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
        head: (build_bert(bert, head, 50, 0, 3), (ids, ids * 0))  # type: ignore[arg-type]
        for head in ("none", "classes", "tags", "span")
    }
    made["tags"] = made["tags"][0], (ids.clamp(min=1), ids * 0)  # the scores at padding mean nothing
    made["pretraining"] = build_bert(bert, "pretraining", 50, 0), (ids, ids * 0, torch.tensor([1, 9, 10]))
    padded = ids.masked_fill(ids == 0, -1)
    gpt_config = GptConfig(max_length=16, **sizes)  # type: ignore[arg-type]
    made["gpt"] = build_gpt(gpt_config, "classes", 53, 3), (padded, padded * 0)
    made["vit"] = build_vit(vit, 3), (torch.rand(3, 1, 8, 8),)
    for model, _ in made.values():
        model.eval()
        for each in model.parameters():
            torch.nn.init.normal_(each, std=0.3)
    return made


HEAD_CHANGES: dict[str, Change] = {
    "nothing": lambda m: None,
    "forward hook on the head": lambda m: m.register_forward_hook(lambda _, __, out: doubled(out)),
    "forward pre-hook on the head": lambda m: m.register_forward_pre_hook(lambda _, given: (given[0].flip(0), *given[1:])),
    "forward hook on the body": lambda m: body_of(m).register_forward_hook(lambda _, __, out: doubled(out)),
    "forward hook on a block": lambda m: body_of(m).get_submodule("blocks" if hasattr(body_of(m), "blocks") else "decoder.blocks")[0].register_forward_hook(lambda _, __, out: doubled(out)),  # type: ignore[index]
    "forward hook on a layer of the head": lambda m: list(m.children())[-1].register_forward_hook(lambda _, __, out: doubled(out)),
    "replaced forward": lambda m: setattr(m, "forward", lambda *given: doubled(type(m).forward(m, *given))),
}  # fmt: skip


def doubled(out: Any) -> Any:
    return tuple(2 * each for each in out) if isinstance(out, tuple) else 2 * out


@pytest.mark.parametrize("change", list(HEAD_CHANGES))
@pytest.mark.parametrize("name", list(heads()))
def test_a_changed_head_gives_what_its_modules_give(name: str, change: str) -> None:
    model, given = heads()[name]
    with torch.no_grad():
        before = run_padded(model, *given)
        HEAD_CHANGES[change](model)  # type: ignore[arg-type]
        ours, theirs = run_padded(model, *given), model(*given)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    changed = (a is not b and not torch.equal(a, b) for a, b in zip(flat(before), flat(ours), strict=True))
    assert any(changed) is (change != "nothing")


def flat(out: Any) -> tuple[Tensor, ...]:
    return out if isinstance(out, tuple) else (out,)


def test_a_subclass_of_a_head_is_called_as_it_is() -> None:
    model, given = heads()["classes"]

    class Doubled(BertClassifier):
        def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
            return 2 * super().forward(ids, segments)

    with torch.no_grad():
        before = run_padded(model, *given)
        model.__class__ = Doubled
        torch.testing.assert_close(run_padded(model, *given), 2 * before, rtol=1e-4, atol=1e-4)
