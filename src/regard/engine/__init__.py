"""Native engine: forward and backward passes of the models in C, for packed batches on a CPU.

`plan(model)` is the one place that decides whether the engine supports a model. The functions for hidden
states, token loss, beam search and generation use the kernels if the plan allows it, else PyTorch.
"""

from regard.engine.forward import run
from regard.engine.locate import find_library
from regard.engine.plan import Plan, Unsupported, describe, plan

__all__ = ["Plan", "Unsupported", "describe", "find_library", "plan", "run"]
