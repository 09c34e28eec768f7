"""Build hook: compiles the native libraries for a wheel, and for an editable installation.

Without a C compiler the wheel is pure Python, and PyTorch operations are used, which are slower.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class EngineBuildHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build = engine_build(Path(self.root))
        files = build.build_shipped(log=self.app.display_info)
        if version == "editable" or not files:
            return
        build_data["pure_python"] = False
        build_data["tag"] = build.wheel_tag([path for path in files if path.suffix == ".so"])
        build_data["force_include"] |= {str(path): f"regard/engine/lib/{path.name}" for path in files}


def engine_build(root: Path) -> Any:
    """src/regard/engine/build.py by its path: importing regard.engine would need PyTorch."""
    spec = importlib.util.spec_from_file_location("engine_build", root / "src/regard/engine/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module
