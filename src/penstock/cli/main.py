"""The `penstock` command: its list of commands, and exit codes for errors."""

from __future__ import annotations

import importlib
import inspect
import os
import platform
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn, cast

import typer
from typer.core import TyperGroup

from penstock.cli import output
from penstock.cli.exit_codes import ExitCode, code_of
from penstock.cli.output import PipeClosed
from penstock.errors import PenstockError, SchemaMismatch

# In the order of `penstock --help`. Each has a module in this folder with `register(app)`, which is
# imported when the command runs: a command should not wait for modules that it does not use.
VERBS = (
    "serve",
    "key",
    "append",
    "read",
    "tail",
    "delete",
    "delayed",
    "queue",
    "topics",
    "create",
    "drop",
    "router",
    "table",
    "features",
    "spool",
    "wal",
    "fsck",
    "repair",
    "compact",
    "cold",
    "pipeline",
    "compat",
    "demo",
    "bench",
)

# The parser's exception for an invalid command line. Newer versions of typer have their own class
# for it, older ones use click's; this base class is right in both.
_UsageError = cast("type[Exception]", typer.BadParameter.__mro__[2])


class Verbs(TyperGroup):
    """Lists the commands by name and imports a command when it is needed."""

    def list_commands(self, ctx: object) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in VERBS and cmd_name not in self.commands:
            part = typer.Typer()
            importlib.import_module(f"penstock.cli.{cmd_name}").register(part)
            self.commands.update(typer.main.get_group(part).commands)
            _unwrap_help(self.commands[cmd_name])
        return super().get_command(ctx, cmd_name)


def _unwrap_help(command: Any) -> None:
    """Join the lines of each paragraph of the help. Typer does so in the first one alone, and
    breaks the others where the source does, and again at the edge of the terminal."""
    if command.help:
        paragraphs = inspect.cleandoc(command.help).split("\n\n")
        command.help = "\n\n".join(" ".join(text.split()) for text in paragraphs)
    for inner in getattr(command, "commands", {}).values():
        _unwrap_help(inner)


app = typer.Typer(
    name="penstock",
    cls=Verbs,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from penstock.codec import kernel

        version = sys.modules["penstock"].__version__
        form = "compiled" if kernel.COMPILED else "interpreted"
        output.line(f"penstock {version} (Python {platform.python_version()}, kernel {form})")
        raise typer.Exit


@app.callback()
def penstock(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """A durable event log: an acknowledged write is never lost, a gap is never silent.

    The data directory is --data-dir, or $PENSTOCK_DATA_DIR, or ./penstock-data.
    """


def main() -> None:
    """The entry point."""
    exit_with(run(sys.argv[1:]))


def exit_with(code: int) -> NoReturn:
    """Flush stdout and end the process."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = ExitCode.PIPE_CLOSED
    if code == ExitCode.PIPE_CLOSED:
        # The interpreter flushes stdout once more on its way out, and must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run(argv: Sequence[str], commands: typer.Typer = app, program: str = "penstock") -> int:
    """Run one command line and return its exit code."""
    as_json = "--json" in argv
    command = typer.main.get_command(commands)
    try:
        result = command.main(list(argv) or ["--help"], program, standalone_mode=False)
    except PipeClosed:
        return ExitCode.PIPE_CLOSED
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except _UsageError as error:
        return _usage_error(error, as_json=as_json)
    except (PenstockError, OSError) as error:
        code = code_of(error)
        detail = error.detail if isinstance(error, SchemaMismatch) else None
        output.error(code, _message(error), as_json=as_json, detail=detail)
        return code
    return result if isinstance(result, int) else ExitCode.OK


def _usage_error(error: Exception, *, as_json: bool) -> ExitCode:
    message = str(getattr(error, "format_message", error.__str__)())
    if not message:
        return ExitCode.OK  # a group without a command: its help was printed
    context = getattr(error, "ctx", None)
    if context is not None:
        message = f"{message.rstrip('.')}; see `{context.command_path} --help`"
    output.error(ExitCode.USAGE, message, as_json=as_json)
    return ExitCode.USAGE


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


if __name__ == "__main__":
    main()
