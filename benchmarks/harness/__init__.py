"""What the benchmarks share: processes that take turns, the statistics of rounds, and regard's own updates."""
