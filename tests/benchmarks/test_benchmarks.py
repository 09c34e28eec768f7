"""The harness of the benchmarks: adjacent turns in alternating order, medians of ratios, absent peers listed."""

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import decoding
import pytest
import quality
import torch
import training
from harness import rounds as harness_rounds
from harness.rounds import Peer, Row, Worker, as_json, compare, compare_with_peers, comparison_row, format_table
from torch import nn

from regard.config.models import TransformerConfig
from regard.nn.build import build
from regard.tokenization import Tokenizer
from regard.training.objectives import Seq2SeqObjective

ROOT = Path(__file__).parents[2]

SCRIPT = f"""
import sys
sys.path.insert(0, {str(ROOT / "benchmarks")!r})
from harness.rounds import Contender, Ready, compare_with_peers, as_json, start

def fixed(speed, note=""):
    return Ready(lambda *words: float(words[0]) if words else speed, note)

def missing():
    import no_such_package

def failing(turns=[]):
    def turn():
        turns.append(1)
        if len(turns) > 1:
            raise ValueError("no more")
        return 1.0
    return Ready(turn)

def broken():
    raise RuntimeError("not with this processor")

def settings():
    from regard.engine import allocator
    return Ready(lambda: 1.0 + allocator._users)

def main():
    names = ["slow", "missing", "failing", "broken", "settings"]
    print(as_json(compare_with_peers("case", __file__, [], [Contender(name, name) for name in names], 2)))

start(main, {{"ours": lambda: fixed(6.0), "slow": lambda: fixed(3.0, "compiled"), "missing": missing,
            "failing": failing, "broken": broken, "settings": settings}})
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """The rows of a benchmark whose workers return fixed speeds."""
    script = tmp_path_factory.mktemp("script") / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment)
    assert process.returncode == 0, process.stderr
    return [Row(**row) for row in json.loads(process.stdout)]


def test_each_peer_is_measured_with_its_own_and_with_our_allocator_settings(rows: list[Row]) -> None:
    assert [(row.peer, row.settings) for row in rows] == [
        (name, settings)
        for name in ("slow", "missing", "failing", "broken", "settings")
        for settings in ("as it comes", "with regard's allocator settings")
    ]
    slow = rows[0]
    assert (slow.ours, slow.value, slow.ratio, slow.rounds, slow.note) == (6.0, 3.0, 2.0, 2, "compiled")


def test_the_allocator_is_tuned_in_the_second_process_only(rows: list[Row]) -> None:
    plain, tuned = rows[-2:]
    assert plain.value == 1
    assert tuned.value == 2


def test_absent_peers_are_listed_with_the_reason(rows: list[Row]) -> None:
    notes = {row.peer: row.note for row in rows if row.ratio is None}
    assert notes["missing"] == "absent: No module named 'no_such_package'"
    assert notes["failing"] == "absent: ValueError: no more"
    assert notes["broken"] == "absent: RuntimeError: not with this processor"
    table = format_table(rows, "per second")
    assert "absent: No module named 'no_such_package'" in table
    assert "2.00" in table


class FixedWorker:
    """A worker with fixed speeds that logs its turns."""

    absent, note = "", ""

    def __init__(self, name: str, speeds: Sequence[float], log: list[str]) -> None:
        self.name, self.speeds, self.log = name, list(speeds), log

    def turn(self, *_: str) -> float:
        self.log.append(self.name)
        return self.speeds.pop(0)


def test_the_ratio_is_the_median_of_the_rounds_ratios() -> None:
    """Of 2, 10/9 and 3; the ratio of the medians would be 3."""
    log: list[str] = []
    ours = FixedWorker("ours", [2.0, 10.0, 9.0], log)
    peer = Peer("peer", "", FixedWorker("peer", [1.0, 9.0, 3.0], log))  # type: ignore[arg-type]
    [row] = compare("case", ours, [peer], 3)  # type: ignore[arg-type]
    assert row.ratio == 2.0
    assert (row.ours, row.value, row.rounds) == (9.0, 3.0, 3)
    assert row.low == pytest.approx((10 / 9 + 2) / 2)
    assert row.high == 2.5


def test_the_turns_of_a_ratio_are_adjacent_and_alternate() -> None:
    log: list[str] = []
    ours = FixedWorker("ours", [1.0] * 4, log)
    peers = [Peer(name, "", FixedWorker(name, [1.0] * 2, log)) for name in "ab"]  # type: ignore[arg-type]
    compare("case", ours, peers, 2)  # type: ignore[arg-type]
    assert log == ["ours", "a", "ours", "b", "a", "ours", "b", "ours"]


def test_without_peers_there_is_one_row() -> None:
    assert compare("case", FixedWorker("ours", [1.0, 3.0, 2.0], []), [], 3) == [Row("case", 2.0, rounds=3)]  # type: ignore[arg-type]


def test_one_round_has_quartiles_too() -> None:
    row = comparison_row("case", [(4.0, 2.0)], "peer")
    assert (row.low, row.ratio, row.high) == (2.0, 2.0, 2.0)
    assert json.loads(as_json([row]))[0]["ratio"] == 2.0


def test_an_ended_worker_is_detected() -> None:
    with Worker([sys.executable, "-c", "print('{\"ready\": true}')"]) as gone:
        assert not gone.absent
        gone.process.wait()
        with pytest.raises(harness_rounds.WorkerEndedError):
            gone.turn()
    with Worker([sys.executable, "-c", "pass"]) as never:
        assert never.absent == "its process ended before its first turn"


def test_training_turns_count_tokens() -> None:
    class Batch:
        tokens = 10

    done: list[Batch] = []
    ready = harness_rounds.training_turns(done.append, [Batch()] * 3, 2)
    start = time.perf_counter()
    speed = ready.turn()
    assert len(done) == 4
    assert speed >= 20 / (time.perf_counter() - start)
    compiled = harness_rounds.training_turns(done.append, [Batch()] * 20, 1, compiling=True)
    assert "compiled in 0 s, not counted" in compiled.note
    assert len(done) == 4 + harness_rounds.COMPILING


def test_operations_per_token() -> None:
    """Six per weight and token: two forward, four backward; embeddings are lookups, not products."""
    config = TransformerConfig(size="tiny", encoder_layers=1, decoder_layers=1, d_model=8, heads=2, d_ff=16)
    encoder, decoder = 4 * 8 * 8 + 2 * 8 * 16, 8 * 8 * 8 + 2 * 8 * 16
    assert training.operations(config, 100) == 6 * (encoder + decoder + 100 * 8)


def test_batches_have_the_lengths_of_captions() -> None:
    batches = training.captions(500)
    lengths = [batch.tokens / batch.source.sequences for batch in batches]
    assert 8 < sum(lengths) / len(lengths) < 20
    assert all(batch.source.sequences * batch.source.max_length <= training.TOKENS + 64 for batch in batches)


@torch.no_grad()
def copy_weights(model: Any, plain: training.PlainTransformer) -> None:
    """Our weights into torch.nn.Transformer; its key bias, which our model lacks, is zero."""

    def linears(module: nn.Module) -> list[nn.Linear]:
        return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]

    def copy(ours: Any, theirs: Any) -> None:
        theirs.weight.copy_(ours.weight)
        theirs.bias.copy_(ours.bias)

    def attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
        *projections, output = linears(ours)
        theirs.in_proj_weight.copy_(torch.cat([layer.weight for layer in projections]))
        biases = [torch.zeros(len(layer.weight)) if layer.bias is None else layer.bias for layer in projections]
        theirs.in_proj_bias.copy_(torch.cat(biases))
        copy(output, theirs.out_proj)

    for side in ("encoder", "decoder"):
        ours, theirs = getattr(model, side), getattr(plain.body, side)
        copy(ours.norm, theirs.norm)
        for block, layer in zip(ours.blocks, theirs.layers, strict=True):
            parts = [block.self_attention, block.feed_forward]
            attention(block.self_attention, layer.self_attn)
            if side == "decoder":
                parts.insert(1, block.cross_attention)
                attention(block.cross_attention, layer.multihead_attn)
            for number, part in enumerate(parts, start=1):
                copy(part.norm, getattr(layer, f"norm{number}"))
            for linear, name in zip(linears(block.feed_forward), ("linear1", "linear2"), strict=True):
                copy(linear, getattr(layer, name))
    plain.embedding.weight.copy_(model.source_embedding.weight)
    plain.output.bias.copy_(model.output_bias)


def test_the_plain_transformer_is_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """With our weights, the loss of the peer built of torch.nn.Transformer is ours, padding or not."""
    monkeypatch.setattr(training, "SMOOTHING", 0.0)  # PyTorch also smooths over the padding token
    config = TransformerConfig(size="tiny", dropout=0.0)
    torch.manual_seed(0)
    model, plain = build(config, 100, 100, Tokenizer.padding), training.PlainTransformer(config, 100)
    copy_weights(model, plain)
    for batch in training.captions(40, 100)[:2]:
        ours = Seq2SeqObjective(model, Tokenizer.padding, 0.0)(batch) / batch.tokens
        sides = [side.padded(Tokenizer.padding) for side in (batch.source, batch.target, batch.labels)]
        theirs = plain(*sides)
        torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-4)
        padded = [nn.functional.pad(ids, (0, 3), value=Tokenizer.padding) for ids in sides]
        torch.testing.assert_close(plain(*padded), theirs)


def test_ours_decodes_as_many_steps_as_the_peers() -> None:
    subject = decoding.load_subject("", "")
    outputs = decoding.ours(subject)(subject.sentences[:3], 2)
    assert isinstance(outputs, list)
    assert [len(hypotheses[0].ids) for hypotheses in outputs] == [decoding.STEPS] * 3


def test_ctranslate2_decodes_as_many_steps() -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    subject = decoding.load_subject("", "")
    outputs = decoding.ctranslate2(subject, "float32")(subject.sentences[:3], 2)
    assert isinstance(outputs, list)
    assert [len(result.hypotheses[0]) for result in outputs] == [decoding.STEPS] * 3


def test_hugging_face_decodes_the_same_with_the_same_weights() -> None:
    pytest.importorskip("transformers", reason="the extra `bench` is not installed")
    subject = decoding.load_subject("", "")
    ours = decoding.ours(subject)(subject.sentences[:3], 1)
    theirs = decoding.huggingface(subject)(subject.sentences[:3], 1)
    assert isinstance(ours, list)
    assert isinstance(theirs, list)
    assert [row[1:] for row in theirs[0].tolist()] == [list(hypotheses[0].ids) for hypotheses in ours]


@pytest.mark.slow
def test_training_is_compared_with_peers() -> None:
    peers = [harness_rounds.Contender(training.PEERS[name], name) for name in ("marian", "torch")]
    rows = compare_with_peers("case", training.__file__, ["tiny"], peers, 1, PYTHONPATH=str(ROOT / "src"))
    assert len(rows) == 4
    assert all(row.ratio for row in rows if not row.note.startswith("absent"))


SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_imports_and_documents_its_command(name: str) -> None:
    """Finds broken imports without running a benchmark."""
    script = importlib.import_module(name)
    assert f"python benchmarks/{name}.py" in script.__doc__


def test_the_picture_of_the_budgets_names_every_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(quality, "save_as", lambda figure, path: drawn.append(figure))
    runs = [tmp_path / name for name in ("15", "120-1", "120-2")]
    for run, score in zip(runs, (38.0, 40.0, 41.0), strict=True):
        run.mkdir()
        rows = [
            {"kind": "valid", "minutes": minute, "bleu": score - 20 / minute} for minute in (2.0, 8.0, 14.0)
        ]
        (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = [
        quality.BudgetResult(15.0, 41.14, [41.14], [40.0], [str(runs[0])]),
        quality.BudgetResult(120.0, 42.68, [42.0, 42.1], [41.0, 41.1], [str(run) for run in runs[1:]]),
    ]
    quality.draw(results, tmp_path / "quality.png")
    [axes] = drawn[0].axes
    assert [text.get_text() for text in axes.texts] == ["41.14\none model + kNN", "42.68\nensemble of 2 + kNN"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "15 minutes: validation, greedy, without kNN memory",
        "model 1 of the 120-minute budget: validation, greedy, without kNN memory",
        "model 2 of the 120-minute budget: validation, greedy, without kNN memory",
        "test, beam search, with kNN memory",
    ]
