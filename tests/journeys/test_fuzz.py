"""Fuzzing of input files: each is accepted or refused with a message, never a traceback.

`make test` tries 120 of each kind; `make test-slow`, or REGARD_FUZZ=10000, many more.
"""

import json
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import regard
from regard import tokenization
from regard.config.recipes import shipped_recipes
from regard.data.corpus import read_pairs
from regard.tasks.registry import load_recipe
from regard.tasks.run_folder import RunFolder

FEW = int(os.environ.get("REGARD_FUZZ", "120"))
MANY = 2500
SECONDS = 20
"""Longer than this counts as a hang."""

Change = tuple[str, float, bytes]
changes = st.lists(
    st.tuples(
        st.sampled_from(["overwrite", "insert", "delete", "double", "cut"]),
        st.floats(0, 1, exclude_max=True),
        st.one_of(
            st.binary(min_size=1, max_size=8),
            st.sampled_from([
                b'"', b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\0", b"null", b"true", b"-1", b"1e999", b"NaN",
                b"99999999999999999999", b"\xff\xfe", b"\\u0000", b'"a":', b"[[[[[[[[", b"'''", b"=", b"#", b"\t",
            ]),
        ),
    ),
    max_size=6,
)  # fmt: skip


def change_bytes(content: bytes, edits: list[Change]) -> bytes:
    for kind, fraction, piece in edits:
        at = int(fraction * (len(content) + 1))
        match kind:
            case "overwrite":
                content = content[:at] + piece + content[at + len(piece) :]
            case "insert":
                content = content[:at] + piece + content[at:]
            case "delete":
                content = content[:at] + content[at + len(piece) * 3 :]
            case "double":
                content = content[:at] + content[max(0, at - 40) : at] + content[at:]
            case "cut":
                content = content[:at]
    return content


values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.integers(-3, 9), st.floats(), st.text(max_size=5),
        st.sampled_from(["", "bpe", "words", "transformer", "rnn", "luong", "<s>", "../x", "\ud800", 10**30, 10**6]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=4,
)  # fmt: skip
swaps = st.lists(
    st.tuples(st.lists(st.integers(0, 10**6), min_size=1, max_size=5), values), min_size=1, max_size=2
)


def swap_values(content: bytes, swaps: list[tuple[list[int], object]]) -> bytes:
    """Replaces values of JSON at random paths."""
    root = json.loads(content)
    for path, value in swaps:
        node = root
        for number in path:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = keys[number % len(keys)]
            if number is not path[-1] and isinstance(node[key], dict | list):
                node = node[key]
                continue
            node[key] = value
            break
    return json.dumps(root).encode("utf-8", "surrogatepass")


def damage(content: bytes, edits: list) -> bytes:
    """Changes bytes or JSON values, depending on the edits."""
    if edits and isinstance(edits[0][0], list):
        return swap_values(content, edits)
    return change_bytes(content, edits)


def fuzz(target: str, strategy: st.SearchStrategy, attempt: Callable[..., object], count: int) -> None:
    """Runs the attempt on so many inputs; any exception but RegardError fails."""
    outcomes: Counter[str] = Counter()

    @settings(
        max_examples=count, deadline=SECONDS * 1000, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def check(content) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                attempt(content)
        except regard.RegardError as error:
            outcomes["refused" if str(error).strip() else "refused without a message"] += 1
        else:
            outcomes["accepted"] += 1

    check()
    assert outcomes["refused without a message"] == 0
    print(
        f"\n{target}: {sum(outcomes.values()):,} inputs, {outcomes['refused']:,} refused with a message, {outcomes['accepted']:,} accepted"
    )


@pytest.fixture(scope="module")
def run(story: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the story's run without its checkpoints."""
    return Path(
        shutil.copytree(
            story / "run", tmp_path_factory.mktemp("fuzz") / "run", ignore=shutil.ignore_patterns("checkpoints")
        )
    )


def fuzz_recipes(run: Path, count: int) -> None:
    shipped = Path(regard.__file__).parent / "recipes"
    path = run / "fuzz.toml"

    def attempt(content: tuple[str, list[Change]]) -> None:
        name, edits = content
        path.write_bytes(change_bytes((shipped / f"{name}.toml").read_bytes(), edits))
        load_recipe(str(path))

    fuzz("recipes", st.tuples(st.sampled_from(shipped_recipes()), changes), attempt, count)
    path.unlink(missing_ok=True)


def fuzz_corpora(run: Path, count: int) -> None:
    texts = st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode))
    endings = st.sampled_from([".txt", ".gz", ".de"])

    def attempt(content: tuple[bytes, bytes, str]) -> None:
        source_bytes, target_bytes, ending = content
        source, target = run / f"s{ending}", run / f"t{ending}"
        source.write_bytes(source_bytes)
        target.write_bytes(target_bytes)
        for _ in read_pairs(source, target):
            pass

    fuzz("corpora", st.tuples(texts, texts, endings), attempt, count)


def fuzz_tokenizers(run: Path, count: int) -> None:
    words = (run / "tokenizer.json").read_bytes()
    trained = tokenization.train("bpe", iter(["ein kleiner hund", "zwei kleine hunde"] * 3), size=300)
    trained.save(run / "bpe.json")
    subwords = (run / "bpe.json").read_bytes()
    path = run / "fuzz.json"

    def attempt(content: tuple[bytes, list[Change]]) -> None:
        base, edits = content
        path.write_bytes(damage(base, edits))
        tokenizer = tokenization.load(path)
        tokenizer.decode(tokenizer.encode("ein hund läuft ☃"))

    fuzz("tokenizers", st.tuples(st.sampled_from([words, subwords]), st.one_of(changes, swaps)), attempt, count)


def fuzz_weights(run: Path, count: int) -> None:
    """Damages the header and the first bytes after it."""
    folder = RunFolder(run)
    weights = (run / "model.safetensors").read_bytes()
    model = regard.load(run).model
    head = 8 + int.from_bytes(weights[:8], "little")

    def attempt(content: list[Change]) -> None:
        (run / "model.safetensors").write_bytes(
            change_bytes(weights[: head + 8], content) + weights[head + 8 :]
        )
        folder.load_weights(model)

    try:
        fuzz("weights", changes, attempt, count)
    finally:
        (run / "model.safetensors").write_bytes(weights)


def fuzz_folders(run: Path, count: int) -> None:
    """Damages any file of a run; a run that opens must translate."""
    names = ("config.json", "tokenizer.json", "model.safetensors")
    whole = {name: (run / name).read_bytes() for name in names}
    compact = json.dumps(json.loads(whole["config.json"])).encode()

    def attempt(content: tuple[str, list[Change]]) -> None:
        name, edits = content
        base = compact if name == "config.json" else whole[name]
        (run / name).write_bytes(damage(base, edits))
        try:
            loaded = regard.load(run)
            loaded.translate(["drei vier"], beam=2)
        finally:
            (run / name).write_bytes(whole[name])

    either = st.one_of(st.tuples(st.sampled_from(names), changes), st.tuples(st.sampled_from(names[:2]), swaps))
    fuzz("run folders", either, attempt, count)


TARGETS = [fuzz_recipes, fuzz_corpora, fuzz_tokenizers, fuzz_weights, fuzz_folders]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fuzz_target", TARGETS, ids=lambda target: target.__name__)
def test_a_few_damaged_files_never_crash(run: Path, fuzz_target) -> None:
    fuzz_target(run, FEW)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fuzz_target", TARGETS, ids=lambda target: target.__name__)
def test_many_damaged_files_never_crash(run: Path, fuzz_target) -> None:
    fuzz_target(run, MANY)
