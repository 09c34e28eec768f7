"""Frozen dataclasses from TOML tables and back, with errors that name the key.

The dataclass is the schema: types, `Literal` choices, `Annotated[int, Range(...)]` bounds, and a
`__post_init__` that raises ValueError for values that are invalid together.
"""

import dataclasses
import difflib
import math
import os
import tomllib
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from regard.errors import RecipeError, nearest
from regard.limits import number_text

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """Bounds of a number: `Range(at_least=1)`, `Range(at_least=0, below=1)`."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def allows(self, value: float) -> bool:
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        if self.at_least is not None and self.at_most is not None:
            return f"from {number_text(self.at_least)} to {number_text(self.at_most)}"
        bounds = {"at least": self.at_least, "above": self.above, "at most": self.at_most, "below": self.below}
        return " and ".join(
            f"{word} {number_text(bound)}" for word, bound in bounds.items() if bound is not None
        )


Count = Annotated[int, Range(at_least=1)]
Whole = Annotated[int, Range(at_least=0)]
Positive = Annotated[float, Range(above=0)]
NotNegative = Annotated[float, Range(at_least=0)]
Share = Annotated[float, Range(at_least=0, below=1)]

# A configuration may be untrusted: bounds keep its numbers from exhausting memory or time.
Layers = Annotated[int, Range(at_least=0, at_most=1000)]
Size = Annotated[int, Range(at_least=0, at_most=1 << 17)]


@dataclass(frozen=True)
class CommandLineValue:
    """A value from the command line: the raw text, and the text parsed as TOML."""

    raw: str
    parsed: Any


def defaults(**values: Any) -> Callable[[type[T]], type[T]]:
    """Class decorator, below `@dataclass`, that gives inherited fields other defaults.

    Raises:
        KeyError: No base class has such a field.
        RecipeError: The field does not allow the value.
    """

    def with_defaults(cls: type[T]) -> type[T]:
        hints = get_type_hints(cls, include_extras=True)
        for name, value in values.items():
            cls.__annotations__[name] = hints[name]
            setattr(cls, name, coerce(hints[name], value, name))
        return cls

    return with_defaults


def build(cls: type[T], table: Mapping[str, Any], path: str = "") -> T:
    """Build a dataclass from a table.

    Raises:
        RecipeError: A key is unknown, missing or has an invalid value; the message begins with the key's path.
    """
    hints = get_type_hints(cls, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(cast(Any, cls)) if field.init}
    for key in table:
        if key not in fields:
            raise RecipeError(f"{join_keys(path, key)}: there is no such key; {suggest_key(key, cls)}")
    values = {}
    for name, field in fields.items():
        if name in table:
            values[name] = coerce(hints[name], table[name], join_keys(path, name))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            if not dataclasses.is_dataclass(hints[name]):
                raise RecipeError(
                    f"{join_keys(path, name)}: this key is missing; it is {describe(hints[name])}"
                )
            values[name] = coerce(hints[name], {}, join_keys(path, name))
    try:
        return cls(**values)
    except ValueError as problem:
        raise RecipeError(f"{join_keys(path, str(problem))}") from None


def coerce(hint: Any, value: Any, path: str) -> Any:
    """The value converted to the type, or a RecipeError that says what is allowed."""
    if isinstance(value, CommandLineValue):
        value = value.raw if is_string(hint) and not isinstance(value.parsed, str) else value.parsed
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *bounds = get_args(hint)
        number = coerce_scalar(inner, value, path, hint)
        for bound in bounds:
            if isinstance(bound, Range) and number is not None and not bound.allows(number):
                raise RecipeError(f"{path}: {format_value(value)} is out of range; allowed is {describe(hint)}")
        return number
    if origin is Literal:
        return check_choice(get_args(hint), value, path)
    if origin in (Union, types.UnionType):
        return coerce_union(get_args(hint), value, path)
    if origin is tuple:
        if not isinstance(value, list):
            raise type_error(hint, value, path)
        element = get_args(hint)[0]
        return tuple(coerce(element, item, f"{path}[{index}]") for index, item in enumerate(value))
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise type_error(hint, value, path)
        return build(cast(type, hint), value, path)
    return coerce_scalar(hint, value, path, hint)


def coerce_scalar(hint: Any, value: Any, path: str, described: Any) -> Any:
    """A number, string or boolean; `described` is the type with its bounds, for the error message."""
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not hint:  # in Python, but not in TOML, a bool is an int
        raise type_error(described, value, path)
    if hint is float and not math.isfinite(value):
        raise RecipeError(f"{path}: {format_value(value)} is not a finite number")
    return value


def check_choice(choices: tuple[Any, ...], value: Any, path: str) -> Any:
    """The value, if it is one of the choices of a `Literal`."""
    if any(value == choice and type(value) is type(choice) for choice in choices):
        return value
    raise RecipeError(
        f"{path}: {format_value(value)} is not a choice; {suggest(str(value), map(str, choices))}"
    )


def coerce_union(options: tuple[Any, ...], value: Any, path: str) -> Any:
    """A value of `X | None`, or of a union of dataclasses, chosen by the `Literal` of their first field."""
    options = tuple(option for option in options if option is not types.NoneType)
    if len(options) == 1:
        return coerce(options[0], value, path)
    if not isinstance(value, Mapping):
        raise RecipeError(f"{path}: {format_value(value)} is not a table")
    key = tag_key(options[0])
    by_tag = {tag_value(option): option for option in options}
    tag = value.get(key, default_tag(options[0]))
    if tag is None:
        raise RecipeError(f"{join_keys(path, key)}: this key is missing; {suggest('', by_tag)}")
    if isinstance(tag, CommandLineValue):
        tag = tag.parsed
    if tag not in by_tag:
        raise RecipeError(
            f"{join_keys(path, key)}: {format_value(tag)} is not a choice; {suggest(str(tag), by_tag)}"
        )
    return build(by_tag[tag], value, path)


def tag_key(cls: Any) -> str:
    """The key that selects the dataclass in a union: its first field."""
    return str(dataclasses.fields(cls)[0].name)


def default_tag(cls: Any) -> str | None:
    """The default of the key that selects the dataclass."""
    default = dataclasses.fields(cls)[0].default
    return None if default is dataclasses.MISSING else str(default)


def tag_value(cls: Any) -> str:
    """The value of the key that selects this dataclass."""
    return str(get_args(get_type_hints(cls)[tag_key(cls)])[0])


def is_string(hint: Any) -> bool:
    """Whether the type, or one of a union, is a string."""
    if get_origin(hint) is Annotated or get_origin(hint) in (Union, types.UnionType):
        return any(is_string(option) for option in get_args(hint))
    return hint is str or (get_origin(hint) is Literal and isinstance(get_args(hint)[0], str))


def describe(hint: Any) -> str:
    """A type in words: `a whole number, at least 1`."""
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *bounds = get_args(hint)
        ranges = [str(bound) for bound in bounds if isinstance(bound, Range)]
        return describe(inner) + "".join(
            f" {text}" if text.startswith("from") else f", {text}" for text in filter(None, ranges)
        )
    if origin is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if origin in (Union, types.UnionType):
        return " or ".join(describe(option) for option in get_args(hint) if option is not types.NoneType)
    if origin is tuple:
        return f"a list, each {describe(get_args(hint)[0])}"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}
    return words.get(hint, "a table")


def type_error(hint: Any, value: Any, path: str) -> RecipeError:
    return RecipeError(f"{path}: {format_value(value)} is not {describe(hint)}")


def format_value(value: Any) -> str:
    """A value in TOML, at most 60 characters; `a table` for a table."""
    if isinstance(value, Mapping):
        return "a table"
    text = toml_value(value) if isinstance(value, str | bool | int | float | list) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def suggest(wrong: str, allowed: Iterable[str], command: str = "", meant: Sequence[str] = ()) -> str:
    """What is allowed, after 'did you mean ...?' if something is near.

    Args:
        wrong: What was written.
        allowed: What may be written.
        command: What lists all names, of which a long list then shows only the nearest.
        meant: What was probably meant, if that is known better than by its spelling.
    """
    names = list(allowed)
    near = meant or [name for name in [nearest(wrong, names)] if name]
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    if not command or len(names) <= SHORT_LIST:
        return f"{hint}allowed: {', '.join(names)}"
    similar = difflib.get_close_matches(near[0] if near else wrong, names, n=SHOWN_OF_LONG_LIST, cutoff=0)
    return f"{hint}allowed: {', '.join(similar)}, ... (all: {command})"


def suggest_key(wrong: str, shape: type) -> str:
    """As `suggest`, for a key that a table does not have."""
    keys = [field.name for field in dataclasses.fields(cast(Any, shape)) if field.init]
    meant = named_keys(wrong, shape)
    if not meant and nearest(wrong, keys) is None:
        meant = near_keys(wrong, shape)
    return suggest(wrong, keys, "regard recipes NAME", meant)


def named_keys(wrong: str, shape: type) -> list[str]:
    """Keys of a table, or of the sections in it, that have this name or are called so in other toolkits."""
    names = (wrong, *SYNONYMS.get(wrong.lower().replace("-", "_"), ()))
    return [path for path in key_paths(shape) if path.rpartition(".")[2] in names and path != wrong][:3]


def near_keys(wrong: str, shape: type) -> list[str]:
    """The key of a section that is spelled similarly, or whose name in other toolkits is."""
    paths = {path.rpartition(".")[2]: path for path in key_paths(shape)}
    near = nearest(wrong, paths)
    if near is None:
        synonym = nearest(wrong.lower().replace("-", "_"), SYNONYMS)
        return named_keys(synonym, shape) if synonym else []
    return [paths[near]]


def key_paths(shape: type) -> Iterator[str]:
    """The keys of a table, with those of its sections: `task`, `train.steps`."""
    hints = get_type_hints(shape)
    for name in (field.name for field in dataclasses.fields(cast(Any, shape)) if field.init):
        hint = hints[name]
        sections = [cast(type, cls) for cls in (hint, *get_args(hint)) if dataclasses.is_dataclass(cls)]
        yield from (
            [name]
            if not sections
            else dict.fromkeys(f"{name}.{path}" for section in sections for path in key_paths(section))
        )


SHORT_LIST = 12
"""Allowed names that an error message lists in full."""
SHOWN_OF_LONG_LIST = 5

SYNONYMS = {
    "accumulate": ("grad_accum",),
    "accumulate_grad_batches": ("grad_accum",),
    "amp": ("precision",),
    "average": ("averaging",),
    "batch": ("batch_tokens", "batch_sentences"),
    "batch_size": ("batch_tokens", "batch_sentences"),
    "beam_size": ("beam",),
    "betas": ("beta1", "beta2"),
    "bf16": ("precision",),
    "clip": ("clip_norm",),
    "cuda": ("device",),
    "decay": ("ema_decay",),
    "dim": ("d_model",),
    "ema": ("averaging",),
    "embed_dim": ("d_model",),
    "embedding_dim": ("d_model",),
    "eps": ("epsilon",),
    "eval_every": ("validate_every",),
    "eval_steps": ("validate_every",),
    "ffn_dim": ("d_ff",),
    "fp16": ("precision",),
    "grad_clip": ("clip_norm",),
    "gradient_accumulation_steps": ("grad_accum",),
    "hidden_size": ("d_model", "hidden"),
    "intermediate_size": ("d_ff",),
    "keep": ("keep_checkpoints",),
    "keep_last": ("keep_checkpoints",),
    "label_smoothing": ("smoothing",),
    "language": ("source_language", "target_language"),
    "layers": ("encoder_layers", "decoder_layers"),
    "learning_rate": ("lr",),
    "log_interval": ("log_every",),
    "logging_steps": ("log_every",),
    "lr_scheduler": ("schedule",),
    "max_epochs": ("epochs",),
    "max_grad_norm": ("clip_norm",),
    "max_len": ("max_length",),
    "max_seq_length": ("max_length",),
    "max_steps": ("steps",),
    "max_time": ("minutes",),
    "max_updates": ("steps",),
    "n_head": ("heads",),
    "n_layer": ("layers", "encoder_layers", "decoder_layers"),
    "num_beams": ("beam",),
    "num_epochs": ("epochs",),
    "num_heads": ("heads",),
    "num_layers": ("layers", "encoder_layers", "decoder_layers"),
    "num_train_epochs": ("epochs",),
    "optim": ("optimizer",),
    "optimiser": ("optimizer",),
    "random_seed": ("seed",),
    "rate": ("lr",),
    "save_every": ("checkpoint_every",),
    "save_steps": ("checkpoint_every",),
    "scheduler": ("schedule",),
    "src": ("source",),
    "tgt": ("target",),
    "time": ("minutes",),
    "train_steps": ("steps",),
    "updates": ("steps",),
    "val_every": ("validate_every",),
    "vocabulary_size": ("vocab_size",),
    "warmup_steps": ("warmup",),
    "wd": ("weight_decay",),
}
"""What other toolkits call a recipe's keys."""


def join_keys(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Overrides from the command line, `key.path=value`; the last assignment to a key wins."""
    overrides: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, raw = assignment.partition("=")
        path = path.strip()
        if not equals or not all(path.split(".")):
            raise RecipeError(f"{assignment!r}: settings are written KEY=VALUE, such as train.steps=500")
        overrides.pop(path, None)
        overrides[path] = CommandLineValue(raw, parse_value(raw.strip()))
    return overrides


def override(table: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the table with other values at some paths, such as `train.steps`."""
    result = copy_tables(table)
    for path, value in overrides.items():
        *sections, key = path.split(".")
        inner = result
        for depth, section in enumerate(sections):
            inner = inner.setdefault(section, {})
            if not isinstance(inner, dict):
                raise RecipeError(f"{path}: {'.'.join(sections[: depth + 1])} is a value, not a table")
        inner[key] = to_toml_type(value)
    return result


def to_toml_type(value: Any) -> Any:
    """A Python value in a TOML type: paths become strings, tuples become lists."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [to_toml_type(item) for item in value] if isinstance(value, tuple) else value


def copy_tables(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: copy_tables(value) if isinstance(value, Mapping) else value for key, value in table.items()}


def parse_value(raw: str) -> Any:
    """`5` is a number, `true` a boolean, `[1, 2]` a list; text that is not TOML is a string."""
    try:
        parsed = tomllib.loads(f"value = {raw}")
    except tomllib.TOMLDecodeError:
        return raw
    return parsed["value"] if list(parsed) == ["value"] else raw


def to_toml(recipe: Any) -> str:
    """The dataclass as TOML from which `build` makes an equal one; keys that are None are omitted."""
    return "\n".join(toml_lines(dataclasses.asdict(recipe), "")).strip() + "\n"


def toml_lines(table: Mapping[str, Any], path: str) -> list[str]:
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    flat = {key: value for key, value in table.items() if key not in nested and value is not None}
    lines = [f"\n[{path}]"] if path and (flat or not nested) else []
    lines += [f"{key} = {toml_value(value)}" for key, value in flat.items()]
    for key, value in nested.items():
        lines += toml_lines(value, join_keys(path, key))
    return lines


def toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return repr(value)


def toml_string(value: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in value) + '"'
