"""Wrongly typed commands: one line with the value, what is allowed and the help, instead of Typer's box."""

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from regard.errors import RecipeError, nearest

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What Typer raises for a wrongly typed command: Click's class, or that of Typer's own copy of Click."""


def usage_message(error: Any, tree: Any, arguments: Sequence[str]) -> str:
    """The message for a `UsageError` of the command line `regard ARGUMENTS`; `tree` has all commands."""
    context = error.ctx or typed_context(tree, arguments)
    sentence = describe_error(error, context, arguments)
    joint = " " if sentence.endswith("?") else "; "
    text = f"{sentence}{joint}see {context.command_path} --help"
    return "".join(character if character.isprintable() else "�" for character in text)


def typed_context(tree: Any, arguments: Sequence[str]) -> Any:
    """The context of the command that the arguments begin with: Typer leaves it out of some errors."""
    context = typer.Context(tree, info_name="regard")
    for argument in arguments:
        subcommand = getattr(context.command, "commands", {}).get(argument)
        if subcommand is None:
            break
        context = typer.Context(subcommand, info_name=argument, parent=context)
    return context


def describe_error(error: Any, context: Any, arguments: Sequence[str]) -> str:
    kind, message = type(error).__name__, " ".join(str(error.message).split()).rstrip(".")
    if kind == "NoSuchOption":
        return unknown_option(context, error.option_name, arguments)
    if kind == "MissingParameter":
        return missing_parameter(error.param)
    if kind == "BadParameter" and error.param is not None:
        return wrong_value(context, error.param, arguments) or f"{name_of(error.param)}: {lower(message)}"
    if kind == "BadOptionUsage" and "does not take" in message:
        return f"{error.option_name}: this option takes no value"
    if kind == "BadOptionUsage":
        return missing_value(context, error.option_name)
    if unknown := re.match(r"No such command '(.*?)'", message):
        return unknown_command(context, unknown[1])
    if extra := re.match(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)$", message):
        quotes = "; text with spaces is written in quotes" if takes_text(context) else ""
        return f"too many arguments: {extra[1]}{quotes}"
    return lower(message)


def unknown_option(context: Any, option: str, arguments: Sequence[str]) -> str:
    """An option that the command does not have; of `regard train`, it may be a key of the recipe."""
    options = [name for parameter in context.command.get_params(context) for name in option_names(parameter)]
    near = nearest(option, [name for name in options if name.startswith("--")])
    if context.command_path == "regard train":
        from regard.config.schema import named_keys, near_keys

        shape, key = recipe_shape(arguments), option.lstrip("-").replace("-", "_")
        if keys := named_keys(key, shape) or ([] if near else near_keys(key, shape)):
            value = next(typed_values([option], arguments), "VALUE")
            settings = " or ".join(f"{path}={value}" for path in keys)
            return f"{option}: settings are written KEY=VALUE: {settings}"
    hint = f"; did you mean {near}?" if near else ""
    return f"{option}: there is no such option{hint}"


def recipe_shape(arguments: Sequence[str]) -> type:
    """The recipe class of the command line; that of translation if no recipe can be read."""
    from regard.config.recipes import read_table
    from regard.tasks.registry import BY_NAME

    for argument in arguments:
        try:
            return BY_NAME[read_table(argument)["task"]].recipe
        except (RecipeError, LookupError, TypeError):
            continue
    return BY_NAME["translation"].recipe


def unknown_command(context: Any, name: str) -> str:
    from regard.config.recipes import shipped_recipes

    path = context.command_path
    if path == "regard" and name in shipped_recipes():
        return f"there is no command {name!r}, but a recipe: regard train {name}"
    near = nearest(name, context.command.commands)
    hint = f"; did you mean '{path} {near}'?" if near else ""
    return f"there is no command '{path} {name}'{hint}"


def missing_parameter(parameter: Any) -> str:
    purpose = lower((parameter.help or "").rstrip("."))
    return f"{name_of(parameter)} is missing" + (f": {purpose}" if purpose else "")


def missing_value(context: Any, option: str) -> str:
    parameters = context.command.get_params(context)
    parameter = next((parameter for parameter in parameters if option in option_names(parameter)), None)
    allowed = "" if parameter is None else description(value_type(context.command, parameter))
    return f"{option}: its value is missing" + (f"; allowed is {allowed}" if allowed else "")


def description(hint: Any) -> str:
    """What an option allows; nothing for text and paths, which their help describes."""
    from regard.config.schema import describe

    return "" if hint is None or (isinstance(hint, type) and hint not in (int, float)) else describe(hint)


def wrong_value(context: Any, parameter: Any, arguments: Sequence[str]) -> str | None:
    """Why a value of an option is refused, in the words of a recipe's key; None if it is not."""
    from regard.config.schema import CommandLineValue, coerce, parse_value

    hint = value_type(context.command, parameter)
    if not description(hint):
        return None
    for raw in typed_values(option_names(parameter), arguments):
        try:
            coerce(hint, CommandLineValue(raw, parse_value(raw)), name_of(parameter))
        except RecipeError as mistake:
            return str(mistake)
    return None


def value_type(command: Any, parameter: Any) -> Any:
    """The type of one value, with its range as a recipe's key would have it; None if it is unknown."""
    from regard.config.schema import Range

    function = inspect.unwrap(command.callback) if command.callback else None
    hint = get_type_hints(function, include_extras=True).get(parameter.name) if function else None
    if get_origin(hint) is not Annotated:
        return hint
    hint, option = get_args(hint)[:2]
    members = [member for member in get_args(hint) if member is not type(None)]
    if type(None) in get_args(hint):
        hint = members[0]
    if get_origin(hint) is list:
        hint = get_args(hint)[0]
    if hint in (int, float):
        return Annotated[hint, Range(at_least=option.min, at_most=option.max)]
    return hint


def typed_values(names: Sequence[str], arguments: Sequence[str]) -> Iterator[str]:
    """The values that follow an option: `--beam 5`, `--beam=5`, `-n 5` or `-n5`."""
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in names and equals:
            yield value
        elif argument in names and index + 1 < len(arguments):
            yield arguments[index + 1]
        elif argument[:2] in names and not argument.startswith("--"):
            yield argument[2:]


def option_names(parameter: Any) -> list[str]:
    return [name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("-")]


def name_of(parameter: Any) -> str:
    """How the help calls a parameter: `--beam`, or `RUN`."""
    names = [name for name in option_names(parameter) if name.startswith("--")]
    return names[0] if names else str(parameter.metavar or parameter.name.upper())


def takes_text(context: Any) -> bool:
    return any(parameter.name == "text" for parameter in context.command.params)


def lower(text: str) -> str:
    """The text with a small first letter, unless its first word is an abbreviation."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
