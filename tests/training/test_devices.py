"""train.device and train.precision: what "auto" selects, and what is refused. Accelerators are simulated."""

import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import regard
from regard.errors import RegardError
from regard.training import devices, loop, process, update
from regard.training.devices import accelerator_memory, accelerator_name, available, choose_device
from regard.training.distributed import process_group

Accelerate = Callable[..., list[int]]


@pytest.fixture
def accelerate(monkeypatch: pytest.MonkeyPatch) -> Accelerate:
    """Simulate an accelerator; returns the indices that were selected."""

    def simulate(kind: str = "cuda", count: int = 2, current: int = 0, **module: object) -> list[int]:
        selected = [current]
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device(kind))
        monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: selected[-1])
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)
        monkeypatch.setattr(torch.accelerator, "set_device_index", selected.append)
        monkeypatch.setattr(torch, "get_device_module", lambda device: SimpleNamespace(**module))
        return selected

    return simulate


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)


@pytest.mark.usefixtures("without")
def test_without_an_accelerator_only_the_cpu_is_available() -> None:
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    assert available() == ["cpu"]
    assert accelerator_name() is accelerator_memory() is None


def test_auto_takes_the_accelerator_of_this_process(accelerate: Accelerate) -> None:
    accelerate("cuda", count=4, current=3)
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda:3")
    assert choose_device("cpu") == torch.device("cpu")
    assert available() == ["cpu", "cuda:0", "cuda:1", "cuda:2", "cuda:3"]


def test_an_index_is_selected(accelerate: Accelerate) -> None:
    selected = accelerate("xpu", count=2)
    assert choose_device("xpu:1") == torch.device("xpu:1")
    assert selected == [0, 1]
    assert choose_device("auto") == torch.device("xpu:1")


@pytest.mark.usefixtures("without")
@pytest.mark.parametrize("wanted", ["cuda", "cuda:1", "mps", "meta", "nonsense", "", "cpu:1", "gpu"])
def test_a_device_that_is_not_there_is_refused(wanted: str) -> None:
    with pytest.raises(RegardError) as refused:
        choose_device(wanted)
    assert str(refused.value) == f'train.device: there is no device "{wanted}" here; choose auto, or one of cpu'


@pytest.mark.parametrize("wanted", ["mps", "cuda:2", "meta"])
def test_refusing_another_device_names_the_available_ones(accelerate: Accelerate, wanted: str) -> None:
    accelerate("cuda", count=2)
    with pytest.raises(RegardError, match=r"choose auto, or one of cpu, cuda:0, cuda:1$"):
        choose_device(wanted)


@pytest.mark.usefixtures("without")
def test_training_refuses_a_missing_device_before_it_makes_a_folder(tmp_path: Path) -> None:
    for recipe, overrides in (
        ("translation", {"data.source": "x"}),
        ("vit", {"data.path": "x"}),
        ("kernel", {}),
    ):
        with pytest.raises(RegardError):
            regard.train(
                recipe,
                tmp_path / recipe,
                overrides={**overrides, "train.device": "mps"},
            )
        assert not (tmp_path / recipe).exists()


def test_name_and_peak_memory_of_the_accelerator(accelerate: Accelerate) -> None:
    accelerate("cuda", get_device_name=lambda: "Some GPU", max_memory_allocated=lambda: 7)
    assert (accelerator_name(), accelerator_memory()) == ("Some GPU", 7)
    accelerate("mps")
    assert (accelerator_name(), accelerator_memory()) == ("mps", None)


def test_the_random_state_of_the_device_is_seeded_and_restored(accelerate: Accelerate) -> None:
    calls: list[object] = []
    accelerate("xpu", get_rng_state=lambda: "state", set_rng_state=calls.append, manual_seed=calls.append)
    with process.preserved_rng():
        update.seed_generators(torch.device("xpu:0"), 5)
        assert torch.initial_seed() == 5
    assert calls == [5, "state"]


def test_bfloat16_is_used_where_the_device_supports_it(accelerate: Accelerate) -> None:
    messages: list[str] = []
    for supported, expected in ((lambda: True, torch.bfloat16), (lambda: False, torch.float32)):
        accelerate("cuda", is_bf16_supported=supported)
        assert devices.choose_precision("auto", torch.device("cuda:0"), messages.append) == expected
    assert not messages
    accelerate("mps")
    assert devices.choose_precision("bfloat16", torch.device("mps:0"), messages.append) == torch.float32
    assert messages == ["mps:0 has no bfloat16; float32 is used"]


@pytest.mark.parametrize(("kind", "pins"), [("cpu", False), ("mps", False), ("cuda", True), ("xpu", True)])
def test_batches_are_pinned_for_devices_with_their_own_memory(kind: str, pins: bool) -> None:
    weight = SimpleNamespace(device=torch.device(kind))
    model = SimpleNamespace(parameters=lambda: iter([weight]))
    batch = SimpleNamespace(pin_memory=lambda: "pinned")
    prepared, _ = loop.pin_memory(model)((batch, None))  # type: ignore[arg-type]
    assert prepared == ("pinned" if pins else batch)


def test_processes_do_not_share_one_device(accelerate: Accelerate, monkeypatch: pytest.MonkeyPatch) -> None:
    accelerate("cuda", count=4)
    monkeypatch.setenv("WORLD_SIZE", "3")
    with (
        pytest.raises(RegardError, match='all 3 processes would compute on "cuda:1"; give "cuda"'),
        process_group("cuda:1"),
    ):
        pass


def test_a_process_takes_the_device_of_its_local_rank(
    accelerate: Accelerate, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.training import distributed

    selected, backends = accelerate("cuda", count=4), []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(distributed, "rendezvous", lambda *_, **__: iter([(None, 1, 2)]))
    monkeypatch.setattr(distributed, "PrefixStore", lambda *_: None)
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda backend, **_: backends.append(backend))
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: None)
    with process_group("auto") as world:
        assert (world.rank, world.size) == (1, 2)
        assert devices.choose_device("cuda") == torch.device("cuda:1")
    assert selected[-1] == 1
    assert backends == ["cpu:gloo,cuda:nccl"]
    with process_group("cpu"):
        pass
    assert backends[-1] == "gloo"


def test_a_cpu_computes_in_float32_by_default() -> None:
    assert devices.choose_precision("auto", torch.device("cpu"), pytest.fail) == torch.float32
    assert devices.choose_precision("float32", torch.device("cpu"), pytest.fail) == torch.float32


def test_float32_is_used_where_the_bfloat16_probe_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    dies = f"import os; os.kill(os.getpid(), {int(signal.SIGILL)})"
    problem = devices.bfloat16_problem(dies)
    assert problem == f"bfloat16 ends the process here with signal {int(signal.SIGILL)}"
    monkeypatch.setattr(devices, "bfloat16_problem", lambda: problem)
    messages: list[str] = []
    assert devices.choose_precision("bfloat16", torch.device("cpu"), messages.append) == torch.float32
    assert messages == [f"{problem}; float32 is used"]


def test_the_bfloat16_probe_refuses_wrong_results() -> None:
    assert devices.bfloat16_problem("assert False") == "bfloat16 gives wrong results here"
    assert devices.bfloat16_problem("") is None


def test_bfloat16_is_used_where_the_probe_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "bfloat16_problem", lambda: None)
    assert devices.choose_precision("bfloat16", torch.device("cpu"), pytest.fail) == torch.bfloat16
