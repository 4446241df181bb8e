"""The command line as a whole: its commands, and how it ends."""

import contextlib
import os
import shlex
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import typer

from widetail.cli._errors import CommandError, UsageError
from widetail.cli._output import say
from widetail.cli.commands._bench import bench
from widetail.cli.commands._demo import demo
from widetail.cli.commands._doctor import doctor
from widetail.cli.commands._evaluate import evaluate
from widetail.cli.commands._fit import fit
from widetail.cli.commands._inspect import inspect
from widetail.cli.commands._kernel import kernel
from widetail.cli.commands._predict import predict
from widetail.cli.commands._reproduce import reproduce

SUCCESS, FAILED, USAGE = 0, 1, 2
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
# a reader such as `head` has seen enough; no SIGPIPE on Windows
PIPE_CLOSED = 128 + 13
PATIENCE = 2.0  # seconds
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")

HELP = """Infinitely wide Bayesian neural networks with heavy tails, for tables.

\b
A first run:
    widetail demo
From a table to intervals:
    widetail fit train.csv --target price --out price.widetail
    widetail predict price.widetail new.csv --interval 0.9 --out new_price.csv
    widetail evaluate price.widetail test.csv --plot calibration.png

Results go to standard output (as JSON with --json), everything else to standard error. Exit codes: 0 done, 1 failed,
2 wrong usage, 130 interrupted, 143 terminated. Files appear under their final names only when they are complete.
"""

app = typer.Typer(
    name="widetail",
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (demo, fit, predict, evaluate, inspect, kernel, reproduce, bench, doctor):
    app.command(command.__name__)(command)


def _version(is_asked: bool) -> bool:
    if is_asked:
        from importlib.metadata import version

        print(f"widetail {version('widetail')}")
        raise typer.Exit
    return is_asked


@app.callback()
def widetail(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
):
    """The options of the command as a whole; the help text is `HELP`."""


class _Terminated(BaseException):
    """SIGTERM, as an exception, so that temporary files are removed on the way out."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    # looked up here rather than in the commands, because the command line itself may be what is wrong
    wants_traceback = "--debug" in arguments
    with warnings.catch_warnings():
        warnings.showwarning = _one_line_warning
        signals: list[BaseException] = []
        try:
            with _signals_as_exceptions(signals), _named_shell(arguments):
                outcome = app(args=arguments, prog_name="widetail", standalone_mode=False)
            sys.stdout.flush()
            if outcome == INTERRUPTED:  # typer has turned the exception into its code
                raise KeyboardInterrupt
            return outcome if isinstance(outcome, int) else SUCCESS
        except BaseException as error:
            # A library that was interrupted may say so in its own words: what counts is the signal that came first.
            code, message = _verdict(signals[0] if signals else error)
            if wants_traceback and code in (FAILED, USAGE):
                traceback.print_exception(error)
            if message:
                say(f"widetail: {message}")
            return code


@contextlib.contextmanager
def _named_shell(arguments: Sequence[str]) -> Iterator[None]:
    """`--show-completion zsh`, where the parser alone would print for the shell that calls it."""
    if len(arguments) < 2 or arguments[0] not in ("--show-completion", "--install-completion"):
        yield
        return
    option, shell, *_ = arguments
    if option == "--install-completion":
        raise UsageError(f"{option} installs for the shell that calls it; use `--show-completion {shell}` for another.")
    if shell not in SHELLS:
        raise UsageError(f"{option}: the shell must be one of {', '.join(SHELLS)}; got {shell!r}.")
    os.environ["_WIDETAIL_COMPLETE"] = f"source_{shell}"  # how shells ask for their script
    try:
        yield
    finally:
        del os.environ["_WIDETAIL_COMPLETE"]


def run_and_exit() -> NoReturn:
    """Run this process's command line, and end the process."""
    code = main()
    if code in (INTERRUPTED, TERMINATED):
        # Everything of ours is put away by now; threads of the compiler may still be at work, and crash when the
        # interpreter is taken down under them.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _verdict(error: BaseException) -> tuple[int, str | None]:
    """Exit code and the line that explains it."""
    if isinstance(error, SystemExit):
        return (error.code if isinstance(error.code, int) else FAILED), None
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED, "interrupted"
    if isinstance(error, _Terminated):
        return TERMINATED, "terminated"
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains again when it ends
        return PIPE_CLOSED, None
    if isinstance(error, typer.Exit):
        return error.exit_code, None
    if hasattr(error, "format_message"):  # an error of the parser of command lines
        problem = _one_line(error.format_message())  # type: ignore
        return USAGE, f"{problem.rstrip('.')}. Try `widetail {_command(error)}--help`."
    if hasattr(error, "remedies"):  # an error of a table
        return FAILED, _one_line(f"{error.problem} {_options(error.remedies)}")  # type: ignore
    if isinstance(error, CommandError):
        return (USAGE if isinstance(error, UsageError) else FAILED), _one_line(str(error))
    if isinstance(error, ModuleNotFoundError):
        extra = {"matplotlib": "plot", "zarr": "distributed"}.get(error.name or "", "cli")
        return FAILED, f"{error.name} is not installed; install it with `pip install 'widetail[{extra}]'`."
    if isinstance(error, (OSError, ValueError, MemoryError, ArithmeticError)):
        return FAILED, _one_line(str(error) or type(error).__name__)
    return FAILED, f"{_one_line(repr(error))} This is a bug; --debug shows where."


def _command(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.info_name} " if context is not None and context.parent is not None else ""


def _options(remedies: Sequence[tuple[str, str | None]]) -> str:
    """Arguments of the library that would help, as options."""
    words = {(".", "decimal"): "point", (",", "decimal"): "comma"}
    tried = [
        f"--{name.replace('_', '-')}" + ("" if value is None else f" {shlex.quote(words.get((value, name), value))}")
        for name, value in remedies
    ]
    return f"Try {' or '.join(tried)}." if tried else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _one_line_warning(message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None):
    say(f"widetail: warning: {_one_line(str(message))}")


@contextlib.contextmanager
def _signals_as_exceptions(raised: list[BaseException]) -> Iterator[None]:
    """Ctrl-C and SIGTERM raise, so that temporary files are removed on the way out; what they raise is added to a list.

    A library may swallow what is raised inside one of its callbacks; the signal is then sent again until it is heard.
    """
    heard = threading.Event()

    def send_again(number: int) -> None:
        if not heard.is_set():
            os.kill(os.getpid(), number)

    def handle(number: int, frame: Any) -> None:
        if heard.is_set():
            return
        reminder = threading.Timer(PATIENCE, send_again, (number,))
        reminder.daemon = True
        reminder.start()
        raised.append(KeyboardInterrupt() if number == signal.SIGINT else _Terminated())
        raise raised[-1]

    def complain(event: Any) -> None:
        if not issubclass(event.exc_type, (KeyboardInterrupt, _Terminated)):  # those come again
            usual(event)

    usual, sys.unraisablehook = sys.unraisablehook, complain
    before = {}
    with contextlib.suppress(ValueError):  # not in the main thread: whoever runs us there looks after signals
        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        heard.set()
        sys.unraisablehook = usual
        for number, handler in before.items():
            signal.signal(number, handler)
