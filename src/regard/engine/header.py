"""The types and functions of csrc/engine.h for ctypes, read from the header itself.

The header keeps to a part of C that needs no compiler to read: structs of numbers, pointers, arrays and other
structs, enums of whole numbers, and functions marked EXPORT.
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
    """What engine.h declares: `constants` of its enums, `structs`, result and arguments of `functions`."""

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
            takes = () if arguments.strip() == "void" else tuple(map(self._argument, arguments.split(",")))
            self.functions[name] = None if result == "void" else NUMBERS[result], takes

    def _read_enum(self, body: str) -> None:
        value = -1
        for entry in filter(None, map(str.strip, body.split(","))):
            name, _, given = (part.strip() for part in entry.partition("="))
            value = int(given) if given else value + 1
            self.constants[name] = value

    def _fields(self, line: str) -> list[tuple[str, Any]]:
        """The fields of one declaration, such as `const float *key, *value` or `Linear linear[LINEARS]`."""
        line = " ".join(line.split())
        if not line:
            return []
        kind, declared = re.fullmatch(r"(?:const )?(\w+) (.*)", line).groups()  # type: ignore[union-attr]
        fields = []
        for each in declared.split(","):
            stars, name, size = re.fullmatch(r"\s*((?:\*|const|\s)*)(\w+)(?:\[(\w+)\])?", each).groups()  # type: ignore[union-attr]
            one = ctypes.c_void_p if "*" in stars else NUMBERS.get(kind) or self.structs[kind]
            fields.append((name, one * self._number(size) if size else one))
        return fields

    def _argument(self, text: str) -> Any:
        if "*" in text:
            return ctypes.c_void_p
        kind, _ = text.split()
        return NUMBERS[kind]

    def _number(self, text: str) -> int:
        return int(text) if text.isdecimal() else self.constants[text]


@cache
def header() -> Header:
    return Header(HEADER.read_text("utf-8"))
