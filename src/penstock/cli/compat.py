"""`penstock compat`: servers that start as those of other systems do."""

from __future__ import annotations

import typer

from penstock.cli.options import MORE


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Servers that start as others do.", no_args_is_help=True)
    group.command(
        context_settings={
            "ignore_unknown_options": True,
            "allow_extra_args": True,
            "help_option_names": [],  # they are the program's own
        }
    )(beava)
    app.add_typer(group, name="compat", rich_help_panel=MORE)


def beava(context: typer.Context) -> None:
    """Serve clients of beava, as its own server would: `penstock compat beava --help`."""
    from penstock.cli.beava import main

    raise typer.Exit(main(context.args, "penstock compat beava"))
