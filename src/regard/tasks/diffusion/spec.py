"""Images from prompts by a diffusion model."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import RegardError
from regard.tasks.diffusion.config import DiffusionRecipe
from regard.tasks.spec import TaskSpec

if TYPE_CHECKING:
    from regard.tasks.diffusion.model import ImageGenerator
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.results import TaskRun
    from regard.tasks.run_folder import RunFolder
    from regard.viz.attention_maps import AttentionMaps


class DiffusionSpec(TaskSpec[DiffusionRecipe, "ImageGenerator"]):
    """Images from prompts by a diffusion model."""

    name = "diffusion"
    recipe = DiffusionRecipe
    reads = None
    commands = ("paint",)

    def train(
        self, recipe: DiffusionRecipe, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TaskRun | None":
        from regard.tasks.diffusion.task import train

        return train(recipe, out, listener, resume=resume)

    def load(self, folder: "RunFolder", recipe: DiffusionRecipe) -> "ImageGenerator":
        from regard.tasks.diffusion.model import ImageGenerator

        return ImageGenerator(folder, recipe)

    def attention(self, loaded: "ImageGenerator", text: str, target: str | None) -> "AttentionMaps":
        raise RegardError(f"{loaded.folder.path} holds a model for diffusion: `regard paint` runs it")
