"""The types and functions of csrc/engine.h for ctypes, parsed from the header.

The header uses a subset of C that is simple to parse: structs of numbers, pointers, arrays and other structs,
enums of integers, and functions marked EXPORT.
"""

import ctypes
import re
from functools import cache
from pathlib import Path
from typing import Any

HEADER = Path(__file__).parent / "csrc" / "engine.h"

NUMBERS: dict[str, Any] = {
    "int": ctypes.c_int,
    "char": ctypes.c_char,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
}


class Header:
    """Declarations of engine.h: `constants` of its enums, `structs`, results and arguments of `functions`."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        self.constants: dict[str, int] = {}
        self.structs: dict[str, type[ctypes.Structure]] = {}
        self.functions: dict[str, tuple[Any, tuple[Any, ...]]] = {}
        for body in re.findall(r"enum\s*\{(.*?)\}", text, re.DOTALL):
            self._read_enum(body)
        for body, name in re.findall(r"typedef struct\s*\{(.*?)\}\s*(\w+)\s*;", text, re.DOTALL):
            fields = tuple(field for line in body.split(";") for field in self._fields(line))
            self.structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
        for result, name, arguments in re.findall(r"EXPORT\s+(\w+)\s+(\w+)\((.*?)\)\s*;", text, re.DOTALL):
            types = () if arguments.strip() == "void" else tuple(map(self._argument, arguments.split(",")))
            self.functions[name] = None if result == "void" else NUMBERS[result], types

    def _read_enum(self, body: str) -> None:
        value = -1
        for entry in filter(None, map(str.strip, body.split(","))):
            name, _, number = (part.strip() for part in entry.partition("="))
            value = int(number) if number else value + 1
            self.constants[name] = value

    def _fields(self, line: str) -> list[tuple[str, Any]]:
        """The fields of one declaration, such as `const float *key, *value` or `Linear linear[LINEARS]`."""
        line = " ".join(line.split())
        if not line:
            return []
        kind, declarators = _groups(r"(?:const )?(\w+) (.*)", line)
        fields = []
        for declarator in declarators.split(","):
            stars, name, size = _groups(r"\s*((?:\*|const|\s)*)(\w+)(?:\[(\w+)\])?", declarator)
            element = ctypes.c_void_p if "*" in stars else NUMBERS.get(kind) or self.structs[kind]
            fields.append((name, element * self._number(size) if size else element))
        return fields

    def _argument(self, text: str) -> Any:
        if "*" in text:
            return ctypes.c_void_p
        kind, _ = text.split()
        return NUMBERS[kind]

    def _number(self, text: str) -> int:
        return int(text) if text.isdecimal() else self.constants[text]


def _groups(pattern: str, text: str) -> tuple[str, ...]:
    match = re.fullmatch(pattern, text)
    if match is None:
        raise ValueError(f"{HEADER.name}: cannot parse {text!r}")
    return match.groups()


@cache
def header() -> Header:
    """The declarations of this package's engine.h."""
    return Header(HEADER.read_text("utf-8"))
