"""Kernel regression: attention over the points of a curve."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import RegardError
from regard.tasks.kernel_regression.config import KernelRegressionRecipe
from regard.tasks.spec import TaskSpec

if TYPE_CHECKING:
    from regard.tasks.kernel_regression.task import KernelRegressor, KernelRun
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.run_folder import RunFolder


class KernelRegressionSpec(TaskSpec[KernelRegressionRecipe, "KernelRegressor"]):
    """Kernel regression: attention over the points of a curve."""

    name = "kernel-regression"
    recipe = KernelRegressionRecipe
    reads = None

    def train(
        self, recipe: KernelRegressionRecipe, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "KernelRun":
        from regard.tasks.kernel_regression.task import train

        if resume:
            raise RegardError("kernel regression has no checkpoints; there is nothing to resume")
        return train(recipe, out)

    def load(self, folder: "RunFolder", recipe: KernelRegressionRecipe) -> "KernelRegressor":
        from regard.tasks.kernel_regression.task import KernelRegressor

        return KernelRegressor(folder, recipe)
