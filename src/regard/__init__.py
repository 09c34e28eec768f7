"""regard trains, runs and opens up attention models, on the machine you have.

>>> import regard
>>> run = regard.train("kernel")        # a shipped recipe or a TOML file -> a run folder
>>> model = regard.load(run.folder)     # a run folder -> something that answers
"""

from typing import TYPE_CHECKING, Any

from regard.arithmetic import enable_reproducible_mkl
from regard.errors import RecipeError, RegardError

if TYPE_CHECKING:
    from regard.tasks import load, train

__version__ = "0.1.0"
__all__ = ["RecipeError", "RegardError", "__version__", "enable_reproducible_mkl", "load", "train"]


def __getattr__(name: str) -> Any:
    # Torch takes a second to import, so it waits until something needs it.
    if name in ("load", "train"):
        from regard import tasks as jobs

        return getattr(jobs, name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
