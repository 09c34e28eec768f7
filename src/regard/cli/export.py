"""`regard export`: write a run in another format, and verify the outputs there."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.arguments import AsJson, Run


def export(
    run: Run,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Output folder; must be empty or new.")],
    to: Annotated[Literal["ctranslate2", "onnx", "huggingface"], typer.Option("--to", help="Target format.")],
    quantize: Annotated[
        Literal["int8"] | None, typer.Option(help="int8 weight quantisation (ctranslate2 only).")
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Texts, or a folder of images, for the check (default: the run's own).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export a model to CTranslate2, ONNX or Hugging Face, and verify its outputs there.

    Examples:

    regard export runs/mine --to ctranslate2 exported/ctranslate2 --quantize int8

    regard export runs/mine --to huggingface exported/huggingface
    """
    from regard.tasks.export import export as export_run

    exported = export_run(run, to, folder, quantize, source)
    check = exported.check
    if as_json:
        print(json.dumps({"folder": str(exported.folder), "format": exported.format, **asdict(check)}))
        return
    counts = ", ".join(f"{count:,} ({how})" for how, count in check.same.items())
    same = f": the same for {counts}" if counts else ""
    print(f"check:   {check.engine} compared with the run, {check.sentences:,} examples{same};")
    print(f"         largest difference of {check.of} {check.difference:.1e}")
    print(f"folder:  {exported.folder}")
