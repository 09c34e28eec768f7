"""The commands as a page, from what their own help says."""

from regard.cli.main import command_tree
from regard.cli.man import Entry, entries


def all_commands() -> str:
    """Every command as Markdown: how it is called, what it does, what it takes, examples."""
    return "\n".join(shown(each) for each in entries(command_tree()))


def shown(entry: Entry) -> str:
    lines = [f"## {entry.name}", "", "```text", entry.usage, "```", ""]
    for paragraph in entry.paragraphs:
        lines += [plain(paragraph), ""]
    if entry.parameters:
        lines += ["| | |", "|---|---|"]
        lines += [f"| `{left.replace('|', ' or ')}` | {plain(right)} |" for left, right in entry.parameters]
    if entry.examples:
        lines += ["", "```text", *entry.examples, "```"]
    return "\n".join([*lines, ""])


def plain(text: str) -> str:
    """Text that Markdown leaves as it is; what stands in backticks stays code."""
    parts = text.replace("|", "\\|").split("`")
    for place in range(0, len(parts), 2):
        for mark in "<*_[":
            parts[place] = parts[place].replace(mark, f"\\{mark}")
    return "`".join(parts)
