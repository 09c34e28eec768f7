"""`regard bench`: speed of the user's own runs. Comparisons with peers are in benchmarks/."""
