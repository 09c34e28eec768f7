"""From a table of a TOML file to a frozen dataclass, and back; what does not fit is refused by its key.

The rules stand in the dataclass itself: its types, `Literal` choices, `Annotated[int, Range(...)]` bounds and
a `__post_init__` that raises ValueError for values that are impossible together.
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

# A configuration may come from a stranger: no number in it makes a machine try what it cannot do.
Layers = Annotated[int, Range(at_least=0, at_most=1000)]
Size = Annotated[int, Range(at_least=0, at_most=1 << 17)]


@dataclass(frozen=True)
class Typed:
    """A value as it was typed on the command line, and what it means read as TOML."""

    raw: str
    value: Any


def defaults(**values: Any) -> Callable[[type[T]], type[T]]:
    """Give inherited fields of a dataclass other defaults; it stands between `@dataclass` and the class.

    Raises:
        KeyError: No base class has such a field.
        RecipeError: The field does not allow the value.
    """

    def with_defaults(shape: type[T]) -> type[T]:
        hints = get_type_hints(shape, include_extras=True)
        for name, value in values.items():
            shape.__annotations__[name] = hints[name]
            setattr(shape, name, coerce(hints[name], value, name))
        return shape

    return with_defaults


def build(shape: type[T], table: Mapping[str, Any], path: str = "") -> T:
    """Make a `shape` from a table; every mistake is a RecipeError that begins with the key's path."""
    hints = get_type_hints(shape, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(cast(Any, shape)) if field.init}
    for key in table:
        if key not in fields:
            raise RecipeError(f"{dotted(path, key)}: there is no such key; {suggest_key(key, shape)}")
    values = {}
    for name, field in fields.items():
        if name in table:
            values[name] = coerce(hints[name], table[name], dotted(path, name))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            if not accepts_table(hints[name]):
                raise RecipeError(f"{dotted(path, name)}: this key is missing; it is {describe(hints[name])}")
            values[name] = coerce(hints[name], {}, dotted(path, name))
    try:
        return shape(**values)
    except ValueError as impossible:
        raise RecipeError(f"{dotted(path, str(impossible))}") from None


def coerce(hint: Any, given: Any, path: str) -> Any:
    """The value as the type wants it, or a RecipeError that says what is allowed."""
    if isinstance(given, Typed):
        given = given.raw if is_text(hint) and not isinstance(given.value, str) else given.value
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *bounds = get_args(hint)
        value = plain_value(inner, given, path, hint)
        for bound in bounds:
            if isinstance(bound, Range) and value is not None and not bound.allows(value):
                raise RecipeError(f"{path}: {shown(given)} is out of range; allowed is {describe(hint)}")
        return value
    if origin is Literal:
        return choice(get_args(hint), given, path)
    if origin in (Union, types.UnionType):
        return one_of(get_args(hint), given, path)
    if origin is tuple:
        if not isinstance(given, list):
            raise wrong_type(hint, given, path)
        element = get_args(hint)[0]
        return tuple(coerce(element, each, f"{path}[{place}]") for place, each in enumerate(given))
    if dataclasses.is_dataclass(hint):
        if not isinstance(given, Mapping):
            raise wrong_type(hint, given, path)
        return build(cast(type, hint), given, path)
    return plain_value(hint, given, path, hint)


def plain_value(hint: Any, given: Any, path: str, told: Any) -> Any:
    """A number, text or truth value; `told` is the type with its bounds, for the sentence."""
    if hint is float and isinstance(given, int) and not isinstance(given, bool):
        given = float(given)
    if type(given) is not hint:  # bool is an int to Python, not to a reader
        raise wrong_type(told, given, path)
    if hint is float and not math.isfinite(given):
        raise RecipeError(f"{path}: {shown(given)} is not a finite number")
    return given


def choice(allowed: tuple[Any, ...], given: Any, path: str) -> Any:
    if any(given == each and type(given) is type(each) for each in allowed):
        return given
    raise RecipeError(f"{path}: {shown(given)} is not a choice; {suggest(str(given), map(str, allowed))}")


def one_of(options: tuple[Any, ...], given: Any, path: str) -> Any:
    """A union: `X | None`, or dataclasses told apart by the choice they make for the key they share first."""
    options = tuple(option for option in options if option is not types.NoneType)
    if len(options) == 1:
        return coerce(options[0], given, path)
    if not isinstance(given, Mapping):
        raise RecipeError(f"{path}: {shown(given)} is not a table")
    tag = tag_of(options[0])
    by_choice = {tag_choice(option): option for option in options}
    given_tag = given.get(tag, default_tag(options[0]))
    if given_tag is None:
        raise RecipeError(f"{dotted(path, tag)}: this key is missing; {suggest('', by_choice)}")
    named = given_tag.value if isinstance(given_tag, Typed) else given_tag
    if named not in by_choice:
        raise RecipeError(
            f"{dotted(path, tag)}: {shown(named)} is not a choice; {suggest(str(named), by_choice)}"
        )
    return build(by_choice[named], given, path)


def tag_of(shape: Any) -> str:
    return str(dataclasses.fields(shape)[0].name)


def default_tag(shape: Any) -> str | None:
    """The choice that is meant where none is made."""
    default = dataclasses.fields(shape)[0].default
    return None if default is dataclasses.MISSING else str(default)


def tag_choice(shape: Any) -> str:
    return str(get_args(get_type_hints(shape)[tag_of(shape)])[0])


def accepts_table(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint)


def is_text(hint: Any) -> bool:
    if get_origin(hint) is Annotated or get_origin(hint) in (Union, types.UnionType):
        return any(is_text(each) for each in get_args(hint))
    return hint is str or (get_origin(hint) is Literal and isinstance(get_args(hint)[0], str))


def describe(hint: Any) -> str:
    """A type in a reader's words: `a whole number, at least 1`."""
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
        return " or ".join(describe(each) for each in get_args(hint) if each is not types.NoneType)
    if origin is tuple:
        return f"a list, each {describe(get_args(hint)[0])}"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text in quotes"}
    return words.get(hint, "a table")


def wrong_type(hint: Any, given: Any, path: str) -> RecipeError:
    return RecipeError(f"{path}: {shown(given)} is not {describe(hint)}")


def shown(given: Any) -> str:
    """A value as TOML would write it; tables and long lists in a word."""
    if isinstance(given, Mapping):
        return "a table"
    text = toml_value(given) if isinstance(given, str | bool | int | float | list) else str(given)
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
    """The key of a section that is spelled similarly, if there is one."""
    paths = {path.rpartition(".")[2]: path for path in key_paths(shape)}
    near = nearest(wrong, paths)
    return [paths[near]] if near else []


def key_paths(shape: type) -> Iterator[str]:
    """The keys of a table, with those of its sections: `task`, `train.steps`."""
    hints = get_type_hints(shape)
    for name in (field.name for field in dataclasses.fields(cast(Any, shape)) if field.init):
        sections = [member for member in (hints[name], *get_args(hints[name])) if accepts_table(member)]
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
    "batch": ("batch_tokens", "batch_sentences"),
    "batch_size": ("batch_tokens", "batch_sentences"),
    "beam_size": ("beam",),
    "betas": ("beta1", "beta2"),
    "bf16": ("precision",),
    "clip_norm": ("clip",),
    "cuda": ("device",),
    "dim": ("d_model",),
    "ema": ("average",),
    "ema_decay": ("decay",),
    "embed_dim": ("d_model",),
    "embedding_dim": ("d_model",),
    "eps": ("epsilon",),
    "eval_every": ("validate_every",),
    "eval_steps": ("validate_every",),
    "ffn_dim": ("d_ff",),
    "fp16": ("precision",),
    "grad_clip": ("clip",),
    "gradient_accumulation_steps": ("grad_accum",),
    "hidden_size": ("d_model", "hidden"),
    "intermediate_size": ("d_ff",),
    "keep_last": ("keep",),
    "label_smoothing": ("smoothing",),
    "language": ("source_language", "target_language"),
    "layers": ("encoder_layers", "decoder_layers"),
    "learning_rate": ("lr",),
    "log_interval": ("log_every",),
    "logging_steps": ("log_every",),
    "lr_scheduler": ("schedule",),
    "max_epochs": ("epochs",),
    "max_grad_norm": ("clip",),
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


def dotted(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Overrides as typed on a command line, `key.path=value`; of a key given twice the last one counts."""
    overrides: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, raw = assignment.partition("=")
        path = path.strip()
        if not equals or not all(path.split(".")):
            raise RecipeError(f"{assignment!r}: settings are written KEY=VALUE, such as train.steps=500")
        overrides.pop(path, None)
        overrides[path] = Typed(raw, read_value(raw.strip()))
    return overrides


def override(table: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The table with other values at some paths, `train.steps`; it is not changed itself."""
    result = copy_tables(table)
    for path, value in overrides.items():
        *sections, key = path.split(".")
        place = result
        for depth, section in enumerate(sections):
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise RecipeError(f"{path}: {'.'.join(sections[: depth + 1])} is a value, not a table")
        place[key] = as_toml(value)
    return result


def as_toml(value: Any) -> Any:
    """A value of Python in a type that TOML has: paths are text, tuples are lists."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [as_toml(each) for each in value] if isinstance(value, tuple) else value


def copy_tables(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: copy_tables(value) if isinstance(value, Mapping) else value for key, value in table.items()}


def read_value(raw: str) -> Any:
    """`5` is a number, `true` a truth value, `[1, 2]` a list; whatever is not TOML is text."""
    try:
        parsed = tomllib.loads(f"value = {raw}")
    except tomllib.TOMLDecodeError:
        return raw
    return parsed["value"] if list(parsed) == ["value"] else raw


def to_toml(recipe: Any) -> str:
    """The dataclass as a TOML document that `build` reads back equal; keys that are None are left out."""
    return "\n".join(_tables(dataclasses.asdict(recipe), "")).strip() + "\n"


def _tables(table: Mapping[str, Any], path: str) -> list[str]:
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    flat = {key: value for key, value in table.items() if key not in nested and value is not None}
    lines = [f"\n[{path}]"] if path and (flat or not nested) else []
    lines += [f"{key} = {toml_value(value)}" for key, value in flat.items()]
    for key, value in nested.items():
        lines += _tables(value, dotted(path, key))
    return lines


def toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(each) for each in value) + "]"
    return repr(value)


def toml_text(value: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in value) + '"'
