"""Property tests draw the same examples each time, and the kernels are compiled once, whatever cache a test has."""

import os
import tempfile
from pathlib import Path

from hypothesis import settings

settings.register_profile("regard", deadline=None, derandomize=True)
settings.load_profile("regard")

os.environ.setdefault("REGARD_NATIVE", str(Path(tempfile.gettempdir()) / f"regard-native-{os.getuid()}"))
