"""Every struct of structs.py has the layout of its C counterpart, field by field."""

import ctypes

import pytest

from regard.engine import find_library, structs
from regard.engine.library import kernels

pytestmark = pytest.mark.skipif(kernels() is None, reason=find_library()[1])

STRUCTS = {
    name: each
    for name, each in vars(structs).items()
    if isinstance(each, type) and issubclass(each, ctypes.Structure)
}


class FieldLayout(ctypes.Structure):
    """An entry of the table in layouts.c; the field is empty for the whole struct."""

    _fields_ = (
        ("structure", ctypes.c_char_p),
        ("field", ctypes.c_char_p),
        ("offset", ctypes.c_int64),
        ("size", ctypes.c_int64),
    )


def in_c() -> dict[str, list[tuple[str, int, int]]]:
    """(field, offset, size) of each struct in order, then ("", 0, its size)."""
    native = kernels()
    assert native is not None
    function = native.struct_layouts
    function.restype, function.argtypes = ctypes.c_int64, (ctypes.POINTER(ctypes.POINTER(FieldLayout)),)
    table = ctypes.POINTER(FieldLayout)()
    layouts: dict[str, list[tuple[str, int, int]]] = {}
    count = function(ctypes.byref(table))
    for each in table[:count]:
        layouts.setdefault(each.structure.decode(), []).append((each.field.decode(), each.offset, each.size))
    return layouts


def test_the_same_structs() -> None:
    assert in_c().keys() == STRUCTS.keys()


@pytest.mark.parametrize("name", STRUCTS)
def test_offsets_and_sizes(name: str) -> None:
    struct, (*fields, whole) = STRUCTS[name], in_c()[name]
    assert whole == ("", 0, ctypes.sizeof(struct))
    ours = [getattr(struct, field[0]) for field in struct._fields_]
    assert [(each.offset, each.size) for each in ours] == [(offset, size) for _, offset, size in fields]


@pytest.mark.parametrize("name", STRUCTS)
def test_no_field_is_left_out(name: str) -> None:
    """Between two fields of C, and after the last one, lies alignment at the most."""
    *fields, (_, _, size) = in_c()[name]
    ends = [offset + length for _, offset, length in fields]
    for end, begin in zip(ends, [offset for _, offset, _ in fields[1:]] + [size], strict=True):
        assert 0 <= begin - end < 8, fields
