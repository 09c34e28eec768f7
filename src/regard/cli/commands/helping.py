"""What the command line says of itself."""


def man() -> None:
    """Print the manual page of all commands, for man(1).

    Examples:

    regard man | man -l -

    regard man > ~/.local/share/man/man1/regard.1
    """
    import typer

    from regard.cli.main import cli
    from regard.cli.manual import entries, manual_page

    print(manual_page(list(entries(typer.main.get_command(cli)))), end="")


def recipe_names(begun: str) -> list[str]:
    """Shipped recipes that begin so: what a shell offers after `regard train`."""
    from regard.config import shipped_recipes

    return [name for name in shipped_recipes() if name.startswith(begun)]
