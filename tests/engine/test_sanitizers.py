"""The native engine under AddressSanitizer and UndefinedBehaviorSanitizer: no report, and no leak in C."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.c_programs import c_compiler, compile_units
from support.engine_calls import child_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SANITIZE = ("-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-O1", "-g")
TESTS = Path(__file__).parents[1]
SELECTED = {
    "2": [
        *("test_gemm.py", "test_stack.py", "test_memory_errors.py", "test_threads.py"),
        *("test_token_loss.py", "test_loss.py"),
    ],
    "1": ["test_search.py", "test_generate.py", "test_conformance.py"],
}
"""Test files, by the number of OpenMP threads: the steps of small searches are too short to be shared."""
SKIPPED = "not 200_steps"
"""A training run of 200 steps: the same kernels as in other tests, but it takes minutes."""


def runtime(name: str) -> str:
    """The path of one of the compiler's libraries."""
    ran = subprocess.run([c_compiler(), f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    if not Path(ran.stdout.strip()).is_absolute():
        pytest.skip(f"{name} is not installed")
    return str(Path(ran.stdout.strip()).resolve())


def test_units_in_c_with_leak_detection(tmp_path: Path) -> None:
    runtime("libasan.so")
    program = compile_units(tmp_path / "units", *SANITIZE, "-fno-sanitize-recover=undefined")
    environment = child_environment(ASAN_OPTIONS="detect_leaks=1", OMP_NUM_THREADS="2")
    ran = subprocess.run([program], capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert not ran.stderr


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of compiled libraries."""
    return tmp_path_factory.mktemp("native")


@pytest.mark.parametrize("threads", SELECTED)
def test_python_tests_with_a_sanitized_library(threads: str, native: Path, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    environment = child_environment(
        LD_PRELOAD=f"{runtime('libasan.so')} {runtime('libstdc++.so.6')}",
        ASAN_OPTIONS=f"detect_leaks=0:allocator_may_return_null=1:log_path={reports / 'asan'}",
        UBSAN_OPTIONS=f"print_stacktrace=1:log_path={reports / 'ubsan'}",
        REGARD_NATIVE=str(native),
        REGARD_CFLAGS=" ".join(SANITIZE),
        OMP_NUM_THREADS=threads,
    )
    loaded = (
        "from regard.engine.library import find_library, kernels; assert kernels() is not None, find_library()"
    )
    subprocess.run([sys.executable, "-c", loaded], check=True, env=environment)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", SKIPPED]
    ran = subprocess.run(
        [*command, *(str(TESTS / "engine" / name) for name in SELECTED[threads])],
        capture_output=True, text=True, check=False, env=environment, cwd=TESTS.parent,
    )  # fmt: skip
    said = "\n".join(report.read_text(errors="replace")[:5000] for report in sorted(reports.iterdir()))
    assert not said
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]
    assert "Sanitizer" not in ran.stdout + ran.stderr
    assert "[100%]" in ran.stdout


PARALLEL_LOOP = """
#include <stdio.h>
int main(void) {
    int x[64] = {0}, sum = 0;
    for (int n = 0; n < 100; n++) {
#pragma omp parallel for
        for (int i = 0; i < 64; i++) x[i] += i;
        for (int i = 0; i < 64; i++) sum += x[i];
    }
    return sum == 0;
}
"""


def test_units_in_c_with_thread_sanitizer(tmp_path: Path) -> None:
    runtime("libtsan.so")
    source, program = tmp_path / "loop.c", tmp_path / "loop"
    source.write_text(PARALLEL_LOOP)
    environment = child_environment(OMP_NUM_THREADS="2")
    flags = ("-fsanitize=thread", "-fopenmp", "-O1", "-g")
    subprocess.run([c_compiler(), *flags, str(source), "-o", str(program)], check=True)
    if subprocess.run([program], capture_output=True, check=False, env=environment).returncode:
        pytest.skip(
            "this OpenMP runtime is not instrumented: ThreadSanitizer reports a race in a plain parallel loop"
        )
    units = compile_units(tmp_path / "units", "-fsanitize=thread", "-g")
    ran = subprocess.run([units], capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr[-5000:]
