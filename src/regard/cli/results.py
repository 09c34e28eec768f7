"""Results as a person reads them in a terminal."""

from rich.console import Console
from rich.table import Table

from regard.metrics import Quality
from regard.tasks.encoder.training import Measured, TextRun
from regard.tasks.kernel_regression.task import KernelRun, curve_cell
from regard.tasks.translation.task import TranslationRun


def print_run(run: KernelRun | TranslationRun | TextRun) -> None:
    """What a training made."""
    match run:
        case KernelRun():
            print_kernel(run)
        case TranslationRun():
            print_translation(run)
        case TextRun():
            print_texts(run)


def print_texts(run: TextRun) -> None:
    console = Console(highlight=False)
    print_measured(console, run.measured, f"{run.on} examples, {run.steps:,} steps, {run.minutes:.1f} minutes")
    console.print(f"run:     {run.folder}", soft_wrap=True)


def print_measured(console: Console, measured: Measured, note: str) -> None:
    """The scores in one line, and label by label where there are labels."""
    scores = "   ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in measured.scores.items())
    console.print(f"{scores}   ({measured.examples:,} {note})", soft_wrap=True)
    if measured.rows:
        table = Table(*measured.rows[0])
        for row in measured.rows:
            table.add_row(*(f"{each:.3f}" if isinstance(each, float) else str(each) for each in row.values()))
        console.print(table)


def print_translation(run: TranslationRun) -> None:
    console = Console(highlight=False)
    print_quality(console, run.quality, run.loss, f"{run.steps:,} steps, {run.minutes:.1f} minutes")
    console.print(f"run:     {run.folder}", soft_wrap=True)


def print_quality(console: Console, quality: Quality, loss: float, note: str = "") -> None:
    """The scores in one line, and the signature that makes them comparable."""
    told = ", ".join([f"{quality.sentences:,} test sentences", *([note] if note else [])])
    scores = f"BLEU {quality.bleu:.2f}   chrF {quality.chrf:.2f}   TER {quality.ter:.2f}   loss {loss:.3f}"
    console.print(f"{scores}   ({told})", soft_wrap=True)
    console.print(f"signature: {quality.signature}", soft_wrap=True)


def print_kernel(run: KernelRun) -> None:
    """The three kernels side by side, and where the pictures are."""
    table = Table(title="Kernel regression", title_justify="left")
    table.add_column("kernel")
    for heading in ("sharpness", "left-out error", "error against the curve"):
        table.add_column(heading, justify="right")
    for fit in run.fits:
        table.add_row(fit.kernel, f"{fit.sharpness:.3f}", f"{fit.left_out_error:.4f}", curve_cell(fit))
    console = Console()
    console.print(table)
    for path in run.pictures:
        console.print(f"picture: {path}", soft_wrap=True, highlight=False)
    console.print(f"run:     {run.folder}", soft_wrap=True, highlight=False)
