"""What is measured faster in C: passes over memory joined into one, compiled where regard runs."""

from regard.native.compile import Asked, Stack, Wanted, address, kernels, library

__all__ = ["Asked", "Stack", "Wanted", "address", "kernels", "library"]
