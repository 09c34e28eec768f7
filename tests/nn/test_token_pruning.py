"""Learned pruning: importance is attention received, soft steps come to hard ones, tokens are gone physically."""

import pytest
import torch
from torch import nn

from regard.config import BertModel, Reduction, TextTrain
from regard.engine import Plan, plan
from regard.engine.forward import PackedBlock
from regard.nn import Apart, AttentionStats, Ends
from regard.nn.build import build_bert
from regard.training.optimiser import make_optimiser
from regard.training.update import update

BERT = BertModel(layers=3, d_model=32, heads=4, d_ff=48, longest=30, dropout=0.0, attention_dropout=0.0)


def bert(**changes) -> nn.Module:
    torch.manual_seed(0)
    model = build_bert(BERT, "classes", 50, 0, 3, Reduction(prune="soft", **changes)).eval()
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
    ends = Ends.of(ids, 0)
    x = model.embedded(ids[ends.real], segments[ends.real], ends.places)
    noted, seen = AttentionStats(), []
    block = model.blocks[0]
    planned = plan(model)
    assert isinstance(planned, Plan)
    runner = PackedBlock(planned.stacks[0].blocks[0]) if native else block
    with torch.no_grad():
        runner.self_attention(x, mask=Apart(ends, ends), noted=noted)
        block.self_attention(x[:9].unsqueeze(0), record=seen.append)
    assert torch.allclose(noted.received[:9], seen[0][0].mean(0).sum(0), atol=1e-5)


def test_thresholds_at_nothing_keep_everything() -> None:
    model, given = bert(), texts(12, 7)
    with torch.no_grad():
        pruned = model(*given)
        model.bert.reduction = None
        assert torch.allclose(pruned, model(*given), atol=1e-6)


def test_tokens_are_taken_away() -> None:
    model = bert()
    ids, segments = texts(20, 11)
    ends = Ends.of(ids, 0)
    with torch.no_grad():
        model.bert.reduction.thresholds.fill_(0.9)
        left = model.bert.reduced(ids, segments, ends, firsts=True)
    looked = [[int(each) for each in lengths] for lengths, _ in left.walked]
    assert looked[0] == [20, 11]
    assert looked[1][0] < 20
    assert looked[2][0] <= looked[1][0]
    assert left.ends.lengths.tolist() == looked[2]
    assert left.into.max() + 1 == sum(looked[2])  # into those that are left
    assert (left.into < 0).sum() == 31 - sum(looked[2])
    assert left.into[0] == 0  # [CLS] stays


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
        soft, _ = model.train().faded(*given)
    assert torch.allclose(soft, hard, atol=1e-3)


def test_thresholds_learn_to_keep_less() -> None:
    model = bert(keep=0.5, weight=5.0, temperature=0.1).train()
    given, gold = texts(20, 11, 16), torch.tensor([0, 1, 2])
    optimiser = make_optimiser(model, TextTrain(steps=1, rate=1e-4))
    kept = []
    for _ in range(80):
        scores, price = model.faded(*given)
        loss = nn.functional.cross_entropy(scores, gold) + price
        optimiser.zero_grad()
        loss.backward()
        update(optimiser, 1e-4)
        kept.append(float(price.detach()) / 5 + 0.5)
    assert kept[0] > 0.9
    assert kept[-1] < 0.6
    thresholds = model.bert.reduction.thresholds
    assert (thresholds > 0).any()
    left = model.eval().bert.reduced(*given, Ends.of(given[0], 0), firsts=True)
    assert sum(int(looked.sum()) for looked, _ in left.walked[1:]) < 0.75 * 2 * 47
