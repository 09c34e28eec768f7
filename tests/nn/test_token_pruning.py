"""Learned pruning: importance is attention received, soft steps come to hard ones, tokens are gone physically."""

import pytest
import torch
from torch import nn

from regard.config.models import BertConfig, TokenReductionConfig
from regard.config.training import TextTrainConfig
from regard.engine.plan import supports
from regard.engine.stack import StackSpec, run_stack
from regard.nn import AttentionStats, Packed
from regard.nn.build import build_bert
from regard.training.optimizers import make_optimizer
from regard.training.update import optimizer_step

BERT = BertConfig(layers=3, d_model=32, heads=4, d_ff=48, max_length=30, dropout=0.0, attention_dropout=0.0)


def bert(**changes) -> nn.Module:
    torch.manual_seed(0)
    model = build_bert(BERT, "classes", 50, 0, 3, TokenReductionConfig(prune="soft", **changes)).eval()
    for name, each in model.named_parameters():
        if "reduction" not in name:
            nn.init.normal_(each, std=0.3)
    return model


def texts(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(1, 50, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(2))
    ids = ids.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths).unsqueeze(1), 0)
    return ids, torch.zeros_like(ids)


@pytest.mark.parametrize("native", [True, False])
def test_importance_is_attention_received(native: bool) -> None:
    model = bert().bert
    ids, segments = texts(9, 5)
    nonpad = ids != 0
    block, seen = model.blocks[0], []
    with torch.no_grad():
        x = model.embed(ids, segments)
        if native:
            packed, (stack,) = Packed.from_padded(x, nonpad), supports(model, "hidden states").stacks
            spec = StackSpec().add(stack, 0, slice(0, 1))
            _, received, _ = run_stack(spec, packed.values, packed.offsets, stats=True)
            received = packed.like(received / 4).padded(0.0)
        else:
            stats = AttentionStats(nonpad)
            block.self_attention(x, mask=nonpad.unsqueeze(1), stats=stats)
            received = stats.received
        block.self_attention(x[1:, :5], record=seen.append)
    assert torch.allclose(received[1, :5], seen[0][0].mean(0).sum(0), atol=1e-5)
    assert received[1, 5:].tolist() == [0] * 4


def test_thresholds_at_nothing_keep_everything() -> None:
    model, given = bert(), texts(12, 7)
    with torch.no_grad():
        pruned = model(*given)
        model.bert.reduction = None
        assert torch.allclose(pruned, model(*given), atol=1e-6)


def test_tokens_are_taken_away() -> None:
    model = bert()
    ids, segments = texts(20, 11)
    with torch.no_grad():
        model.bert.reduction.thresholds.fill_(0.9)
        left = model.bert.reduced(ids, segments, first_only=True)
    attended = [[int(each) for each in lengths] for lengths, _ in left.counts]
    assert attended[0] == [20, 11]
    assert attended[1][0] < 20
    assert attended[2][0] <= attended[1][0]
    assert left.lengths.tolist() == attended[2]
    assert (left.index.max(1).values + 1).tolist() == attended[2]  # among those that are left
    assert (left.index < 0).sum() == 40 - sum(attended[2])
    assert left.index[:, 0].tolist() == [0, 0]  # [CLS] stays


def test_a_text_does_not_depend_on_its_neighbours() -> None:
    model = bert()
    with torch.no_grad():
        model.bert.reduction.thresholds.fill_(0.9)
        ids, segments = texts(20, 11)
        together = model(ids, segments)
        assert torch.allclose(together[1], model(ids[1:, :11], segments[1:, :11])[0], atol=1e-5)


def test_soft_steps_become_the_hard_ones() -> None:
    """At a temperature near nothing, what fades away counts as little as what is taken away."""
    model = bert(temperature=1e-5)
    given = texts(20, 11)
    with torch.no_grad():
        model.bert.reduction.thresholds.fill_(0.9)
        hard = model(*given)
        soft, _ = model.train().soft_pruned(*given)
    assert torch.allclose(soft, hard, atol=1e-3)


def test_thresholds_learn_to_keep_less() -> None:
    model = bert(keep=0.5, weight=5.0, temperature=0.1).train()
    given, gold = texts(20, 11, 16), torch.tensor([0, 1, 2])
    optimizer = make_optimizer(model, TextTrainConfig(steps=1, lr=1e-4))
    kept = []
    for _ in range(80):
        scores, penalty = model.soft_pruned(*given)
        loss = nn.functional.cross_entropy(scores, gold) + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer_step(optimizer, 1e-4)
        kept.append(float(penalty.detach()) / 5 + 0.5)
    assert kept[0] > 0.9
    assert kept[-1] < 0.6
    thresholds = model.bert.reduction.thresholds
    assert (thresholds > 0).any()
    left = model.eval().bert.reduced(*given, first_only=True)
    assert sum(int(attended.sum()) for attended, _ in left.counts[1:]) < 0.75 * 2 * 47
