"""Shared code of the benchmarks: interleaved worker processes, statistics of rounds, training updates."""
