"""The fast forward and backward passes of the same weights: C kernels for packed batches on a CPU.

`plan(model)` is the one place that decides whether they may run a model; the rest of the package asks for
hidden states, a token loss, beam search or generation, and gets PyTorch's where the plan refuses.
"""

from regard.engine.forward import run
from regard.engine.locate import find_library
from regard.engine.plan import Plan, Unsupported, describe, plan

__all__ = ["Plan", "Unsupported", "describe", "find_library", "plan", "run"]
