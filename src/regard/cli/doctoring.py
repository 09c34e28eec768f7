"""`regard doctor`: a table of ticks, or JSON."""

import json

from rich.console import Console
from rich.markup import escape

from regard.tasks.doctor import Finding, as_json, examine


def run(print_json: bool) -> bool:
    """Print what was found; whether all is well."""
    console = Console(highlight=False)
    findings: list[Finding] = []
    for each in examine():
        findings.append(each)
        if not print_json:
            mark = "[green]✓[/]" if each.well else "[red]✗[/]"
            console.print(f"{mark} [bold]{each.check}[/]: {escape(each.told)}", soft_wrap=True)
    well = all(each.well for each in findings)
    if print_json:
        print(json.dumps(as_json(findings), ensure_ascii=False))
    else:
        crosses = [each.check for each in findings if not each.well]
        seconds = sum(each.seconds for each in findings)
        told = "all is well" if well else f"not well: {', '.join(crosses)}"
        console.print(f"{told} ({len(findings)} checks, {seconds:.0f} s)", soft_wrap=True)
    return well
