"""What header.py reads from engine.h is what a C compiler reads."""

import ctypes
import subprocess
from functools import cache
from pathlib import Path

import pytest
from support.c_programs import c_compiler

from regard.engine.header import HEADER, Header, header

STRUCTS = header().structs


@cache
def compiled(folder: Path) -> dict[str, list[int]]:
    """For each struct its size, and each field's offset and size, as a C program prints them."""
    lines = ["#include <stdio.h>", '#include "engine.h"', "int main(void) {"]
    for name, struct in STRUCTS.items():
        numbers = [f"sizeof({name})"]
        for field, *_ in struct._fields_:
            numbers += [f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"]
        formats = " ".join(["%zu"] * len(numbers))
        lines.append(f'    printf("{name} {formats}\\n", {", ".join(numbers)});')
    constants = ", ".join(header().constants)
    lines += [f'    printf("constants {" %d" * len(header().constants)}\\n", {constants});', "}"]
    source, program = folder / "layouts.c", folder / "layouts"
    source.write_text("\n".join(lines))
    command = [c_compiler(), "-std=gnu11", "-fopenmp", f"-I{HEADER.parent}", str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    return {name: list(map(int, numbers)) for name, *numbers in map(str.split, printed.splitlines())}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("layouts")


@pytest.mark.parametrize("name", STRUCTS)
def test_sizes_and_offsets(name: str, folder: Path) -> None:
    struct = STRUCTS[name]
    fields = [getattr(struct, field[0]) for field in struct._fields_]
    ours = [ctypes.sizeof(struct), *(number for field in fields for number in (field.offset, field.size))]
    assert ours == compiled(folder)[name]


def test_constants(folder: Path) -> None:
    assert list(header().constants.values()) == compiled(folder)["constants"]


def test_every_exported_function_is_read_with_its_arguments() -> None:
    text = HEADER.read_text("utf-8")
    assert len(header().functions) == text.count("\nEXPORT ")
    result, takes = header().functions["gemm"]
    assert result is None
    assert takes == (
        *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p),
        *(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int, ctypes.c_void_p),
    )


def test_arrays_pointers_and_values_of_constants() -> None:
    small = Header(
        """enum { ONE = 1, TWO, MANY = 7 }; /* typedef struct { int no; } Comment; */
        typedef struct { int32_t a, b; const float *x, *const *y; } Inner;
        typedef struct { Inner inner; double many[MANY]; int64_t two[2]; } Outer;
        EXPORT int f(const Outer *o, int64_t n); EXPORT void g(void);"""
    )
    assert small.constants == {"ONE": 1, "TWO": 2, "MANY": 7}
    assert [name for name, _ in small.structs["Inner"]._fields_] == ["a", "b", "x", "y"]
    assert ctypes.sizeof(small.structs["Outer"]) == 24 + 56 + 16
    assert small.functions == {
        "f": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_int64)),
        "g": (None, ()),
    }
