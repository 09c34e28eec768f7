"""Upper limits on sizes that a user chooses: one constant for the command line, recipes, Python and the server.

Memory and time grow with all of these: a typing error, or a run folder from a stranger, must not use them up.
"""

from regard.errors import RegardError

MAX_BEAM = 256
"""Beam size. More than is useful: wide beams lower the quality of translations (Koehn and Knowles 2017)."""
MAX_NBEST = MAX_BEAM
"""Results for one input; the beam is widened to them, so they share its limit."""
MAX_BATCH_SIZE = 65_536
"""Sentences or prompts decoded together."""
MAX_TOKENS = 1_000_000
"""Tokens written for one input."""
MAX_SAMPLES = 65_536
"""Texts sampled for one prompt."""

SERVER_MAX_BEAM = 32
"""Beam size and results that one HTTP request may have: a server is shared."""
SERVER_MAX_TOKENS = 1000
"""Tokens that one HTTP request may have written for a prompt."""


def check_range(name: str, value: int, least: int, most: int) -> None:
    """Refuse a size out of its range.

    Raises:
        RegardError: the value is not a whole number from `least` to `most`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise RegardError(
            f"{name}: {value} is out of range; allowed is a whole number from {least} to {number_text(most)}"
        )


def number_text(number: float) -> str:
    """A number as messages write it: 0.5, 65535, 1,000,000."""
    return f"{number:,}" if isinstance(number, int) and abs(number) >= 100_000 else f"{number:g}"
