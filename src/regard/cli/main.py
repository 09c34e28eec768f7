"""The command line: registers the commands, and turns errors into a message and an exit code.

A command's module imports typer and the standard library at its top, and everything else when the command runs:
`regard --help` must not import PyTorch.
"""

import errno
import math
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from typing import Annotated, Any

import typer

from regard import __version__
from regard.cli import (
    answer,
    bench,
    classify,
    compare,
    data,
    doctor,
    embed,
    evaluate,
    export,
    generate,
    import_folder,
    look,
    man,
    paint,
    recipes,
    remember,
    report,
    serve,
    show,
    tag,
    train,
    translate,
)
from regard.cli.mistakes import UsageError, usage_message
from regard.errors import RegardError, is_out_of_memory
from regard.mkl import enable_reproducible_mkl

PANELS: dict[str, dict[str, Callable[..., None] | typer.Typer]] = {
    "Train": {
        "recipes": recipes.recipes,
        "train": train.train,
        "remember": remember.remember,
        "data": data.app,
    },
    "Use": {
        "translate": translate.translate,
        "generate": generate.generate,
        "classify": classify.classify,
        "tag": tag.tag,
        "answer": answer.answer,
        "embed": embed.embed,
        "paint": paint.paint,
        "serve": serve.serve,
    },
    "Inspect": {"look": look.look, "report": report.report},
    "Measure": {
        "evaluate": evaluate.evaluate,
        "compare": compare.compare,
        "bench": bench.app,
        "doctor": doctor.doctor,
    },
    "Exchange": {"export": export.export, "import": import_folder.import_folder},
    "Learn": {"show": show.app, "man": man.man},
}
"""The commands in the order of `regard --help`, by the heading they stand under."""
COMMANDS = {name: command for commands in PANELS.values() for name, command in commands.items()}


def command_tree() -> Any:
    """All commands, as Typer's parser of the command line."""
    tree: Any = typer.main.get_command(cli)
    tree.commands = {name: tree.commands[name] for name in COMMANDS}  # Typer puts groups after commands
    hide_flag_types(tree)
    return tree


def hide_flag_types(command: Any) -> None:
    """Leave out `<bool>` after options that take no value, in the help of a command and its subcommands."""
    for parameter in command.get_params(typer.Context(command, **command.context_settings)):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    for subcommand in getattr(command, "commands", {}).values():
        subcommand.context_settings.setdefault("help_option_names", HELP_OPTIONS)
        hide_flag_types(subcommand)


HELP_OPTIONS = ["-h", "--help"]
cli = typer.Typer(
    name="regard",
    help="Train, run and inspect attention models on your own machine.",
    epilog="Begin with: regard recipes",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP_OPTIONS},
)
for panel, commands in PANELS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            cli.add_typer(command, name=name, rich_help_panel=panel)
        else:
            cli.command(name, rich_help_panel=panel)(command)


def main() -> None:
    """The console script: a user's mistake ends with a message and exit code 2, never a traceback.

    Sets MKL's environment variables, which must happen before a command imports PyTorch.
    """
    enable_reproducible_mkl()
    try:
        if address_space() < PYTORCH_NEEDS:
            sys.meta_path.insert(0, NoPyTorch())
        tree = command_tree()
        sys.exit(tree.main(prog_name="regard", standalone_mode=False) or 0)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help is printed
            sys.exit(2)
        fail(usage_message(error, tree, sys.argv[1:]), 2)
    except RegardError as error:
        fail(str(error), error.code)
    except KeyboardInterrupt:
        fail("stopped", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the pipe has exited: no message
        sys.exit(1)
    except Exception as error:
        if is_out_of_memory(error):
            fail(OUT_OF_MEMORY, 1)
        if not isinstance(error, OSError) or error.errno not in USER_ERRNOS:
            raise
        path = f" {error.filename}" if error.filename else ""
        code = 1 if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) else 2
        fail(f"writing{path} failed: {(error.strerror or str(error)).lower()}", code)


OUT_OF_MEMORY = (
    "out of memory; free some memory, raise the limit of this process (ulimit -v), or use less data or a "
    "smaller model"
)
"""The message if no option of the command is known to help."""

PYTORCH_NEEDS = 640 << 20
"""Bytes of address space that importing PyTorch needs: with less, its libraries abort or exit silently."""


def address_space() -> float:
    """Bytes that this process may map (ulimit -v)."""
    try:
        import resource
    except ImportError:  # Windows
        return math.inf
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return math.inf if limit == resource.RLIM_INFINITY else limit


class NoPyTorch(MetaPathFinder):
    """Makes `import torch` raise MemoryError; commands that do not import it still work."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "torch":
            raise MemoryError


USER_ERRNOS = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EISDIR,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
"""Errors of writing a file that a user can fix."""


def fail(message: str, code: int) -> None:
    print(f"regard: {message}", file=sys.stderr)
    sys.exit(code)


def print_version(requested: bool) -> None:
    if requested:
        print(f"regard {__version__}")
        raise typer.Exit


@cli.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
