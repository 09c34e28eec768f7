"""The reference page of the commands, generated from their help."""

from regard.cli.main import command_tree
from regard.cli.man import Entry, entries


def all_commands() -> str:
    """Every command as Markdown: usage, description, parameters, examples."""
    return "\n".join(command_markdown(entry) for entry in entries(command_tree()))


def command_markdown(entry: Entry) -> str:
    lines = [f"## {entry.name}", "", "```text", entry.usage, "```", ""]
    for paragraph in entry.paragraphs:
        lines += [escape_markdown(paragraph), ""]
    if entry.parameters:
        lines += ["| parameter | meaning |", "|---|---|"]
        lines += [
            f"| `{left.replace('|', ' or ')}` | {escape_markdown(right)} |" for left, right in entry.parameters
        ]
    if entry.examples:
        lines += ["", "```text", *entry.examples, "```"]
    return "\n".join([*lines, ""])


def escape_markdown(text: str) -> str:
    """Escape Markdown in a text, except for code in backticks."""
    parts = text.replace("|", "\\|").split("`")
    for index in range(0, len(parts), 2):
        for character in "<*_[":
            parts[index] = parts[index].replace(character, f"\\{character}")
    return "`".join(parts)
