"""What the kernels are given, field by field as in C."""

import ctypes


class Asked(ctypes.Structure):
    """What `attend_apart` is asked: the same fields as in C."""

    _fields_ = (
        ("query", ctypes.c_void_p),
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("query_row", ctypes.c_int64),
        ("key_row", ctypes.c_int64),
        ("value_row", ctypes.c_int64),
        ("query_start", ctypes.c_void_p),
        ("key_start", ctypes.c_void_p),
        ("sentences", ctypes.c_int),
        ("heads", ctypes.c_int),
        ("size", ctypes.c_int),
        ("causal", ctypes.c_int),
        ("dropped", ctypes.c_int),
        ("scale", ctypes.c_float),
        ("seed", ctypes.c_uint64),
        ("bias", ctypes.c_void_p),
        ("received", ctypes.c_void_p),
    )


class Around(ctypes.Structure):
    """What stands before and after a sublayer: the same fields as in C, as of all that follow."""

    _fields_ = (
        ("x", ctypes.c_void_p),
        ("norm", ctypes.c_void_p),
        ("norm_bias", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("dropped", ctypes.c_int),
        ("seed", ctypes.c_uint64),
        ("epsilon", ctypes.c_float),
        ("before", ctypes.c_int64),
    )


class Thought(ctypes.Structure):
    """What `think_there` and `think_back` are given."""

    _fields_ = (
        ("around", Around),
        ("widen", ctypes.c_void_p),
        ("narrow", ctypes.c_void_p),
        ("widen_bias", ctypes.c_void_p),
        ("narrow_bias", ctypes.c_void_p),
        ("inner", ctypes.c_int64),
        ("dropped", ctypes.c_int),
        ("seed", ctypes.c_uint64),
    )


class Looked(ctypes.Structure):
    """What `look_there` and `look_back` are given."""

    _fields_ = (
        ("around", Around),
        ("source", ctypes.c_void_p),
        ("ask", ctypes.c_void_p),
        ("recall", ctypes.c_void_p),
        ("tell", ctypes.c_void_p),
        ("ask_bias", ctypes.c_void_p),
        ("recall_bias", ctypes.c_void_p),
        ("tell_bias", ctypes.c_void_p),
        ("sources", ctypes.c_int64),
        ("sources_before", ctypes.c_int64),
        ("attention", Asked),
        ("onto", ctypes.c_int),
    )


class Sublayer(ctypes.Structure):
    """A sublayer with what it learns, for `learn`."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("inside", ctypes.c_uint64),
        ("around", ctypes.c_uint64),
        ("norm", ctypes.c_void_p * 2),
        ("maps", ctypes.c_void_p * 8),
        ("norm_at", ctypes.c_int64 * 2),
        ("maps_at", ctypes.c_int64 * 8),
    )


class Side(ctypes.Structure):
    """The encoder or the decoder with its embedding, for `learn`."""

    _fields_ = (
        ("ids", ctypes.c_void_p),
        ("start", ctypes.c_void_p),
        ("table", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
        ("table_at", ctypes.c_int64),
        ("places_at", ctypes.c_int64),
        ("norm", ctypes.c_void_p * 2),
        ("norm_at", ctypes.c_int64 * 2),
        ("seed", ctypes.c_uint64),
        ("count", ctypes.c_int64),
        ("sublayers", ctypes.POINTER(Sublayer)),
    )


class Lesson(ctypes.Structure):
    """A batch and the model that learns from it, for `learn`."""

    _fields_ = (
        ("read", Side),
        ("write", Side),
        ("gold", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("output_at", ctypes.c_int64),
        ("bias_at", ctypes.c_int64),
        ("parameters", ctypes.c_int64),
        ("sentences", ctypes.c_int64),
        ("passes", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("inner", ctypes.c_int64),
        ("words", ctypes.c_int64),
        ("padding", ctypes.c_int64),
        ("dropped", ctypes.c_int),
        ("dropped_inside", ctypes.c_int),
        ("dropped_weights", ctypes.c_int),
        ("epsilon", ctypes.c_float),
        ("scale", ctypes.c_float),
        ("sure", ctypes.c_float),
        ("spread", ctypes.c_float),
        ("r_drop", ctypes.c_float),
    )


class Stack(ctypes.Structure):
    """An encoder or a decoder as the kernels walk through it: the same fields as in C."""

    _fields_ = (
        ("layers", ctypes.c_int),
        ("width", ctypes.c_int),
        ("heads", ctypes.c_int),
        ("inner", ctypes.c_int),
        ("words", ctypes.c_int),
        ("post", ctypes.c_int),
        ("gelu", ctypes.c_int),
        ("scale", ctypes.c_float),
        ("epsilon", ctypes.c_float),
        ("table", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
    )


class Remembered(ctypes.Structure):
    """Places of remembered sentences, for `nearest` and `translate`."""

    _fields_ = (
        ("keys", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("words", ctypes.c_void_p),
        ("places", ctypes.c_int64),
        ("count", ctypes.c_int),
        ("sharpness", ctypes.c_float),
        ("weight", ctypes.c_float),
    )


class Wanted(ctypes.Structure):
    """What to search for: the same fields as in C."""

    _fields_ = (
        ("beam", ctypes.c_int),
        ("nbest", ctypes.c_int),
        ("longest", ctypes.c_int),
        ("begin", ctypes.c_int),
        ("end", ctypes.c_int),
        ("never_count", ctypes.c_int),
        ("never", ctypes.c_int64 * 8),
        ("penalty", ctypes.c_double),
    )
