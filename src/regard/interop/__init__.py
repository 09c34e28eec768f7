"""Models to and from other people's formats."""
