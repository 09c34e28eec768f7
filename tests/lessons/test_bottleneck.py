"""The claims of `regard show bottleneck`: attention copies long lines, one vector does not."""

import pytest
import torch

from regard.lessons import bottleneck


def test_lines_are_written_as_the_task_says() -> None:
    generator = torch.Generator().manual_seed(0)
    copied = bottleneck.batch_of("copy", 3, 5, generator)
    assert torch.equal(copied.source.values, copied.labels.values)
    turned = bottleneck.batch_of("reverse", 3, 5, generator)
    source, target, labels = (
        each.padded(bottleneck.PADDING) for each in (turned.source, turned.target, turned.labels)
    )
    assert torch.equal(source[:, :-1].flip(1), labels[:, :-1])
    assert (labels[:, -1] == bottleneck.END).all()
    assert torch.equal(target[:, 1:], labels[:, :-1])
    assert turned.tokens == 18


def test_every_model_practises_on_the_same_lines() -> None:
    one, other = (list(bottleneck.training_batches("copy", 4, 5, seed=3)) for _ in range(2))
    assert all(torch.equal(a.source.values, b.source.values) for a, b in zip(one, other, strict=True))


def test_exact_means_every_symbol() -> None:
    class Parrot:
        """Writes the source, with the last symbol wrong in the second line."""

        def start(self, source: torch.Tensor) -> "Place":
            source = source.clone()
            source[1, -2] = 4 if source[1, -2] != 4 else 5
            return Place(source)

        def step(
            self, tokens: torch.Tensor, state: "Place", record: object = None
        ) -> tuple[torch.Tensor, "Place"]:
            scores = torch.nn.functional.one_hot(state.left[:, 0], 24).float() * 50
            return scores, Place(state.left[:, 1:])

    class Place:
        def __init__(self, left: torch.Tensor) -> None:
            self.left = left

        def select(self, rows: torch.Tensor) -> "Place":
            return Place(self.left[rows])

    test = bottleneck.batch_of("copy", 4, 6, torch.Generator().manual_seed(0))
    assert bottleneck.exact_accuracy(Parrot(), test) == 0.75


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_attention_opens_the_bottleneck(task: bottleneck.Task) -> None:
    result = bottleneck.measure(task)
    print(f"\n{task}: exact at lengths {result.lengths}")
    for each in result.models:
        print(f"  {each.name:32} {'  '.join(f'{share:.1%}' for share in each.exact)}")
    seeing = [each.exact[-1] for each in result.models if each.alignment is not None]
    blind = [each.exact[-1] for each in result.models if each.alignment is None]
    assert min(seeing) >= 0.99
    assert max(blind) < 0.5
