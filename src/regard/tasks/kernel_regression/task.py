"""Kernel regression: fit a kernel, compare it with averaging and a fixed kernel, plot the fits."""

from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from regard.data.regression_points import curve, load_points
from regard.nn import Recorder
from regard.nn.kernel_regression import KernelRegression
from regard.tasks.kernel_regression.config import KernelRegressionRecipe
from regard.tasks.loaded_model import LoadedModel
from regard.tasks.results import ResultTable, Summary, saved_line
from regard.tasks.run_folder import RunFolder
from regard.training.devices import choose_device
from regard.training.schedules import constant
from regard.training.update import Step, fit
from regard.viz.charts import draw_fits
from regard.viz.figure import save
from regard.viz.heatmaps import draw_kernel_weights


@dataclass(frozen=True)
class Fit:
    """Errors of one kernel."""

    kernel: str
    sharpness: float
    left_out_error: float
    """Leave-one-out mean squared error: each point predicted from the others."""
    curve_error: float | None
    """Mean squared error against the curve without noise, where that is known."""


@dataclass(frozen=True)
class KernelRun:
    """The result of training a kernel regression."""

    folder: Path
    fits: list[Fit]
    pictures: list[Path]

    def as_json(self) -> dict[str, object]:
        return {
            "run": str(self.folder),
            "fits": [asdict(fit) for fit in self.fits],
            "pictures": [str(path) for path in self.pictures],
        }

    def summary(self) -> Summary:
        """A table of the kernels, and the paths of the pictures."""
        columns = ("kernel", "sharpness", "leave-one-out error", "error against the curve")
        rows = [
            (fit.kernel, f"{fit.sharpness:.3f}", f"{fit.left_out_error:.4f}", curve_cell(fit))
            for fit in self.fits
        ]
        table = ResultTable(columns, rows, "Kernel regression", numbers_right=True)
        pictures = (f"picture: {path}" for path in self.pictures)
        return Summary((), table, (*pictures, saved_line(self.folder)))


def train(recipe: KernelRegressionRecipe, out: Path) -> KernelRun:
    """Fit the recipe's kernel, compare it with averaging and a fixed kernel, and write the run folder."""
    choose_device(recipe.train.device)  # raises before a folder is made
    folder = RunFolder.create(out)
    x, y = load_points(recipe.data, recipe.train.seed)
    model = KernelRegression.from_points(x, y, recipe.model.kernel, recipe.model.sharpness)
    initial_weights = attention_weights(model)
    steps = fit_sharpness(model, recipe) if recipe.model.kernel == "learned" else []
    models = {
        "average": KernelRegression.from_points(x, y, "average"),
        "fixed": KernelRegression.from_points(x, y, "fixed", recipe.model.sharpness),
        recipe.model.kernel: model,
    }
    truth = curve if recipe.data.path is None else None
    grid = torch.linspace(float(x[0]), float(x[-1]), 200)
    with torch.no_grad():
        fits = [measure(name, fitted, grid, truth(grid) if truth else None) for name, fitted in models.items()]
        lines = {name: fitted(grid).numpy() for name, fitted in models.items()}
    pictures = save(
        draw_fits(x.numpy(), y.numpy(), grid.numpy(), lines, truth(grid).numpy() if truth else None),
        out / "curves",
    )
    pictures += save(
        draw_kernel_weights(x.numpy(), initial_weights.numpy(), attention_weights(model).numpy()),
        out / "weights",
    )
    folder.write_metrics({"step": step.number, "loss": step.loss, "lr": step.lr} for step in steps)
    folder.write("README.md", card(recipe, fits))
    folder.write_weights(model)
    folder.write_recipe(recipe)
    folder.write_config(recipe)
    return KernelRun(out, fits, pictures)


def fit_sharpness(model: KernelRegression, recipe: KernelRegressionRecipe) -> list[Step]:
    """Minimize the leave-one-out error over the sharpness, the only parameter."""
    model.to(choose_device(recipe.train.device))
    optimizer = torch.optim.Adam(model.parameters())
    batches = repeat(model.y, recipe.train.steps)
    steps = list(
        fit(
            optimizer,
            constant(recipe.train.lr),
            batches,
            lambda y: functional.mse_loss(model.leave_one_out(), y),
        )
    )
    model.cpu()
    return steps


def measure(name: str, model: KernelRegression, grid: Tensor, truth: Tensor | None) -> Fit:
    left_out = float(functional.mse_loss(model.leave_one_out(), model.y))
    against_curve = None if truth is None else float(functional.mse_loss(model(grid), truth))
    return Fit(name, model.sharpness, left_out, against_curve)


def attention_weights(model: KernelRegression) -> Tensor:
    """The weight of every point (key) for every point (query): (query, key)."""
    record = Recorder()
    with torch.no_grad():
        model(model.x, record=record)
    return record["kernel"][0, 0]


def card(recipe: KernelRegressionRecipe, fits: list[Fit]) -> str:
    source = "y = 2 sin(x) + x^0.8 + noise" if recipe.data.path is None else recipe.data.path
    rows = "\n".join(
        f"| {fit.kernel} | {fit.sharpness:.3f} | {fit.left_out_error:.4f} | {curve_cell(fit)} |" for fit in fits
    )
    return (
        f"# Kernel regression\n\nPoints: {source}, seed {recipe.train.seed}.\n\n"
        f"| kernel | sharpness | leave-one-out error | error against the curve |\n|---|---|---|---|\n{rows}\n"
    )


def curve_cell(fit: Fit) -> str:
    return "" if fit.curve_error is None else f"{fit.curve_error:.4f}"


class KernelRegressor(LoadedModel):
    """A trained kernel regression: predictions, and the weights of the points."""

    does = "predicts points of a curve"
    recipe: KernelRegressionRecipe

    def __init__(self, folder: RunFolder, recipe: KernelRegressionRecipe) -> None:
        weights = folder.weights()
        self.folder, self.recipe = folder, recipe
        self.model = KernelRegression(len(weights.get("x", ())), recipe.model.kernel, recipe.model.sharpness)
        folder.load_weights(self.model)

    def predict(self, x: list[float]) -> list[float]:
        """y for each x."""
        with torch.no_grad():
            return [float(y) for y in self.model(torch.tensor(x))]

    def attention(self, x: list[float]) -> Tensor:
        """The weight of every training point for each x: (query, key)."""
        record = Recorder()
        with torch.no_grad():
            self.model(torch.tensor(x), record=record)
        return record["kernel"][0, 0]
