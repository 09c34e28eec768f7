"""Images from prompts by a diffusion model."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.config import PaintRecipe
from regard.errors import RegardError
from regard.tasks.spec import TaskSpec

if TYPE_CHECKING:
    from regard.tasks.diffusion.model import ImageGenerator
    from regard.tasks.encoder.training import TaskRun
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.run_folder import RunFolder
    from regard.viz.payload import AttentionMaps


class DiffusionSpec(TaskSpec[PaintRecipe, "ImageGenerator"]):
    """Images from prompts by a diffusion model."""

    name = "painting"
    recipe = PaintRecipe
    reads = None
    commands = frozenset({"paint"})

    def train(
        self, recipe: PaintRecipe, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TaskRun | None":
        from regard.tasks.diffusion.task import train

        return train(recipe, out, listener, resume=resume)

    def load(self, folder: "RunFolder", recipe: PaintRecipe) -> "ImageGenerator":
        from regard.tasks.diffusion.model import ImageGenerator

        return ImageGenerator(folder, recipe)

    def attention(self, loaded: "ImageGenerator", text: str, target: str | None) -> "AttentionMaps":
        raise RegardError(f"{loaded.folder.path} holds a painting model: `regard paint` shows what it paints")
