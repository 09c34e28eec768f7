"""Files nobody ever looked at: whatever is in them, there is an answer or one sentence, never a traceback.

`make test` tries a few hundred of each kind; `make test-slow`, or REGARD_FUZZ=10000, many more.
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
"""Longer than this is a hang."""

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


def changed(content: bytes, made: list[Change]) -> bytes:
    for kind, share, piece in made:
        at = int(share * (len(content) + 1))
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


def swapped(content: bytes, made: list[tuple[list[int], object]]) -> bytes:
    """JSON in which values, found by walking down, are other ones."""
    root = json.loads(content)
    for steps, value in made:
        place = root
        for number in steps:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = keys[number % len(keys)]
            if number is not steps[-1] and isinstance(place[key], dict | list):
                place = place[key]
                continue
            place[key] = value
            break
    return json.dumps(root).encode("utf-8", "surrogatepass")


def damaged(content: bytes, made: list) -> bytes:
    """By bytes or by values, whichever the changes are."""
    if made and isinstance(made[0][0], list):
        return swapped(content, made)
    return changed(content, made)


def fuzzed(target: str, strategy: st.SearchStrategy, attempt: Callable[..., object], count: int) -> None:
    """Run the attempt on so many inputs; a RegardError is an answer, anything else is not."""
    seen: Counter[str] = Counter()

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
        except regard.RegardError as refused:
            seen["refused" if str(refused).strip() else "refused without a word"] += 1
        else:
            seen["accepted"] += 1

    check()
    assert seen["refused without a word"] == 0
    print(
        f"\n{target}: {sum(seen.values()):,} inputs, {seen['refused']:,} refused in a sentence, {seen['accepted']:,} accepted"
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
        name, made = content
        path.write_bytes(changed((shipped / f"{name}.toml").read_bytes(), made))
        load_recipe(str(path))

    fuzzed("recipes", st.tuples(st.sampled_from(shipped_recipes()), changes), attempt, count)
    path.unlink(missing_ok=True)


def fuzz_corpora(run: Path, count: int) -> None:
    texts = st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode))
    endings = st.sampled_from([".txt", ".gz", ".de"])

    def attempt(content: tuple[bytes, bytes, str]) -> None:
        one, other, ending = content
        source, target = run / f"s{ending}", run / f"t{ending}"
        source.write_bytes(one)
        target.write_bytes(other)
        for _ in read_pairs(source, target):
            pass

    fuzzed("corpora", st.tuples(texts, texts, endings), attempt, count)


def fuzz_tokenizers(run: Path, count: int) -> None:
    words = (run / "tokenizer.json").read_bytes()
    trained = tokenization.train("bpe", iter(["ein kleiner hund", "zwei kleine hunde"] * 3), size=300)
    trained.save(run / "bpe.json")
    subwords = (run / "bpe.json").read_bytes()
    path = run / "fuzz.json"

    def attempt(content: tuple[bytes, list[Change]]) -> None:
        base, made = content
        path.write_bytes(damaged(base, made))
        opened = tokenization.load(path)
        opened.decode(opened.encode("ein hund läuft ☃"))

    fuzzed(
        "tokenizers", st.tuples(st.sampled_from([words, subwords]), st.one_of(changes, swaps)), attempt, count
    )


def fuzz_weights(run: Path, count: int) -> None:
    """The header and the first bytes after it."""
    folder = RunFolder(run)
    weights = (run / "model.safetensors").read_bytes()
    model = regard.load(run).model
    head = 8 + int.from_bytes(weights[:8], "little")

    def attempt(content: list[Change]) -> None:
        (run / "model.safetensors").write_bytes(changed(weights[: head + 8], content) + weights[head + 8 :])
        folder.load_weights(model)

    try:
        fuzzed("weights", changes, attempt, count)
    finally:
        (run / "model.safetensors").write_bytes(weights)


def fuzz_folders(run: Path, count: int) -> None:
    """Any file of a run, changed; what opens must translate."""
    names = ("config.json", "tokenizer.json", "model.safetensors")
    whole = {name: (run / name).read_bytes() for name in names}
    compact = json.dumps(json.loads(whole["config.json"])).encode()

    def attempt(content: tuple[str, list[Change]]) -> None:
        name, made = content
        base = compact if name == "config.json" else whole[name]
        (run / name).write_bytes(damaged(base, made))
        try:
            opened = regard.load(run)
            opened.translate(["drei vier"], beam=2)
        finally:
            (run / name).write_bytes(whole[name])

    either = st.one_of(st.tuples(st.sampled_from(names), changes), st.tuples(st.sampled_from(names[:2]), swaps))
    fuzzed("run folders", either, attempt, count)


EVERY = [fuzz_recipes, fuzz_corpora, fuzz_tokenizers, fuzz_weights, fuzz_folders]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fuzz", EVERY, ids=lambda each: each.__name__)
def test_a_few_strange_files_are_answered(run: Path, fuzz) -> None:
    fuzz(run, FEW)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fuzz", EVERY, ids=lambda each: each.__name__)
def test_many_strange_files_are_answered(run: Path, fuzz) -> None:
    fuzz(run, MANY)
