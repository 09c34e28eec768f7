"""`regard doctor`: checks of the machine and the installation."""

import json

import typer

from regard.cli.arguments import AsJson


def doctor(as_json: AsJson = False) -> None:
    """Check this machine and this installation, in about a minute; the exit code is 1 if a check fails.

    Example:  regard doctor --json
    """
    from rich.console import Console
    from rich.markup import escape

    from regard.tasks import doctor as checks

    console = Console(highlight=False)
    findings: list[checks.CheckResult] = []
    for finding in checks.run_checks():
        findings.append(finding)
        if not as_json:
            mark = "[green]✓[/]" if finding.passed else "[red]✗[/]"
            console.print(f"{mark} [bold]{finding.check}[/]: {escape(finding.message)}", soft_wrap=True)
    failed = [finding.check for finding in findings if not finding.passed]
    if as_json:
        print(json.dumps(checks.as_json(findings), ensure_ascii=False))
    else:
        seconds = sum(finding.seconds for finding in findings)
        summary = f"not well: {', '.join(failed)}" if failed else "all is well"
        console.print(f"{summary} ({len(findings)} checks, {seconds:.0f} s)", soft_wrap=True)
    if failed:
        raise typer.Exit(1)
