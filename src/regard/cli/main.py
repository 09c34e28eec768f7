"""The command line: one verb a command, each a thin skin over the rooms below."""

import errno
import math
import sys
from importlib.abc import MetaPathFinder
from typing import Annotated

import typer

from regard import __version__
from regard.arithmetic import enable_reproducible_mkl
from regard.cli import data, show
from regard.cli.commands import asking, helping, making, measuring, opening
from regard.errors import RegardError, is_out_of_memory

cli = typer.Typer(
    name="regard",
    help="Train, run and open up attention models, on the machine you have.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    making.train,
    making.remember,
    asking.translate,
    asking.generate,
    asking.classify,
    asking.tag,
    asking.answer,
    asking.embed,
    asking.paint,
    opening.look,
    opening.serve,
    measuring.evaluate,
    measuring.compare,
    measuring.report,
    measuring.doctor,
    measuring.bench,
    making.export,
):
    cli.command()(command)
cli.command(name="import")(making.import_folder)
cli.add_typer(show.app, name="show")
cli.add_typer(data.app, name="data")
cli.command()(helping.man)


def main() -> None:
    """The console script: a user's mistake ends with one sentence and exit code 2, never a traceback.

    The command owns its process, so it sets the environment before a command imports PyTorch.
    """
    enable_reproducible_mkl()
    try:
        if address_space() < PYTORCH_NEEDS:
            sys.meta_path.insert(0, NoPyTorch())
        cli()
    except RegardError as mistake:
        fail(str(mistake), mistake.code)
    except KeyboardInterrupt:
        fail("stopped", 130)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; nobody wants to hear about it
        sys.exit(1)
    except Exception as problem:
        if is_out_of_memory(problem):
            fail(OUT_OF_MEMORY, 1)
        if not isinstance(problem, OSError) or problem.errno not in USERS_MATTERS:
            raise
        where = f" {problem.filename}" if problem.filename else ""
        code = 1 if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) else 2
        fail(f"writing{where} failed: {(problem.strerror or str(problem)).lower()}", code)


OUT_OF_MEMORY = (
    "Out of memory. Free some memory, raise the limit of this process (ulimit -v), or use less data or a "
    "smaller model."
)
"""Where no setting of the command is known to help."""

PYTORCH_NEEDS = 640 << 20
"""Bytes of address space that importing PyTorch takes: with less, its libraries abort or exit silently."""


def address_space() -> float:
    """Bytes that this process may map (ulimit -v)."""
    try:
        import resource
    except ImportError:  # Windows
        return math.inf
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return math.inf if limit == resource.RLIM_INFINITY else limit


class NoPyTorch(MetaPathFinder):
    """An import of PyTorch that cannot succeed is a lack of memory; commands that do without it still work."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "torch":
            raise MemoryError


USERS_MATTERS = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EISDIR,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
"""What keeps a file from being written that a user can mend."""


def fail(sentence: str, code: int) -> None:
    print(f"regard: {sentence}", file=sys.stderr)
    sys.exit(code)


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"regard {__version__}")
        raise typer.Exit


@cli.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
