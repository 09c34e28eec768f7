"""Upper limits on sizes that a user chooses: one constant for the command line, recipes, Python and the server.

Memory and time grow with all of them; a typing error or an untrusted run folder must not exhaust them.
"""

from regard.errors import RegardError

MAX_BEAM = 256
"""Beam size. Above what is useful: wide beams lower translation quality (Koehn and Knowles 2017)."""
MAX_NBEST = MAX_BEAM
"""Results per input; the beam is at least as large, so both have the same limit."""
MAX_BATCH_SIZE = 65_536
"""Sentences or prompts per decoding batch."""
MAX_TOKENS = 1_000_000
"""Generated tokens per input."""
MAX_SAMPLES = 65_536
"""Sampled texts per prompt."""

SERVER_MAX_BEAM = 32
"""Beam size and results per HTTP request; lower, because a server is shared."""
SERVER_MAX_TOKENS = 1000
"""Generated tokens per prompt of an HTTP request."""


def check_range(name: str, value: int, least: int, most: int) -> None:
    """Check that a size is in its range.

    Raises:
        RegardError: The value is not a whole number from `least` to `most`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise RegardError(
            f"{name}: {value} is out of range; allowed is a whole number from {least} to {number_text(most)}"
        )


def number_text(number: float) -> str:
    """A number as messages write it: 0.5, 65535, 1,000,000."""
    return f"{number:,}" if isinstance(number, int) and abs(number) >= 100_000 else f"{number:g}"
