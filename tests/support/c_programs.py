"""Compiles the C unit tests (csrc_tests.c), with or without sanitizers."""

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


def compile_units(program: Path, *options: str) -> Path:
    """Compiles with the engine's flags; variable-length arrays are errors."""
    flags = [flag for flag in FLAGS if flag not in ("-O3", "-fPIC")]
    source = Path(__file__).parents[1] / "engine" / "csrc_tests.c"
    arguments = [*flags, "-march=native", "-Wall", "-Werror=vla", *options, f"-I{CSRC}"]
    subprocess.run([c_compiler(), "-O1", *arguments, str(source), "-lm", "-o", str(program)], check=True)
    return program
