"""Compiles csrc_tests.c, with or without sanitizers."""

import shutil
import subprocess
from pathlib import Path

import pytest

from regard.engine.build import CSRC, FLAGS


def c_compiler() -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    return compiler


def compile_units(program: Path, *more: str) -> Path:
    """The unit tests in C, with the engine's flags; arrays of variable length are errors."""
    flags = [each for each in FLAGS if each not in ("-O3", "-fPIC")]
    source = Path(__file__).parents[1] / "engine" / "csrc_tests.c"
    options = [*flags, "-march=native", "-Wall", "-Werror=vla", *more, f"-I{CSRC}"]
    subprocess.run([c_compiler(), "-O1", *options, str(source), "-lm", "-o", str(program)], check=True)
    return program
