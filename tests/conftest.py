"""Property tests take the time they need and draw the same examples each time: a red run can be repeated."""

from hypothesis import settings

settings.register_profile("regard", deadline=None, derandomize=True)
settings.load_profile("regard")
