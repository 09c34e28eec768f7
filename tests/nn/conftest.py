"""The position schemes as fixtures, so that a claim can be tested for all of them."""

from collections.abc import Callable

import pytest

from regard.nn import Alibi, Learned, Position, Relative, Rotary, Sinusoidal

MakePosition = Callable[[int, int], Position]
"""From d_model and heads to a scheme."""

ORDERED: dict[str, MakePosition] = {
    "sinusoidal": lambda d_model, heads: Sinusoidal(d_model, prepared=6),  # short: tests pass its end
    "learned": lambda d_model, heads: Learned(d_model, length=64),
    "relative": lambda d_model, heads: Relative(d_model // heads, reach=3),
    "rotary": lambda d_model, heads: Rotary(d_model // heads),
    "alibi": lambda d_model, heads: Alibi(heads),
}
SCHEMES: dict[str, MakePosition] = {"none": lambda d_model, heads: Position(), **ORDERED}


@pytest.fixture(scope="session", params=list(SCHEMES))
def make_position(request: pytest.FixtureRequest) -> MakePosition:
    """Every scheme, and no scheme."""
    return SCHEMES[request.param]


@pytest.fixture(scope="session", params=list(ORDERED))
def make_ordered(request: pytest.FixtureRequest) -> MakePosition:
    """Every scheme that encodes order."""
    return ORDERED[request.param]
