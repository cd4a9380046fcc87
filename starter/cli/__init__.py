"""The command ``afterturn``. Only light modules are imported before a command is chosen."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from starter.cli.output import one_line, prepare_streams
from starter.cli.state import State

__all__ = ["main"]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code; without ``argv`` (the process's own command line) it may end the process instead.

    0: done. 1: it failed, one line on standard error says why. 2: what was given cannot be used. 130: interrupted.
    """
    code = _main(argv)
    if argv is None and "temporalio.bridge.temporal_sdk_bridge" in sys.modules:
        # The SDK's native threads may still hand objects back while the interpreter is torn down, which aborts the process
        # ("PyGILState_Release") after all work is done. So the tearing down is left out.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _main(argv: Sequence[str] | None) -> int:
    prepare_streams()
    state = State()
    try:
        return _run(argv, state)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader of our output went away, as in `afterturn … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_FAILED
        return _fail(state, f"{error.strerror or type(error).__name__}{f': {error.filename}' if error.filename else ''}", error)
    except Exception as error:  # noqa: BLE001  the last stop: one line instead of a traceback, which --debug shows
        return _fail(state, *_explain(error))


def _run(argv: Sequence[str] | None, state: State) -> int:
    from typer.exceptions import Abort, TyperException

    from starter.cli.app import app

    try:
        result = app(args=None if argv is None else list(argv), prog_name="afterturn", standalone_mode=False, obj=state)
    except Abort:
        # A question was left open: by Ctrl-C, or there is nobody to answer it.
        sys.stderr.write("\n")
        _say("not confirmed, so nothing was done; --yes does not ask")
        return EXIT_INTERRUPTED
    except TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            sys.stderr.write(error.format_message() + "\n")
        else:
            _say(f"{one_line(error.format_message())} (see --help)")
        return EXIT_USAGE
    return result if isinstance(result, int) else 0


def _explain(error: Exception) -> tuple[str, Exception, int]:
    from memory.model.errors import AfterturnError, InvalidInput

    if isinstance(error, AfterturnError):
        return error.message, error, EXIT_USAGE if isinstance(error, InvalidInput) else EXIT_FAILED
    if "temporalio.service" in sys.modules:
        from temporalio.service import RPCError

        if isinstance(error, RPCError):
            status = error.status.name.lower().replace("_", " ")
            return f"Temporal did not do it: {status}: {error.message}", error, EXIT_FAILED
    return f"unexpected {type(error).__name__}; run it again with --debug to see where", error, EXIT_FAILED


def _fail(state: State, message: str, error: Exception, code: int = EXIT_FAILED) -> int:
    if state.debug:
        import traceback

        traceback.print_exception(error)
    _say(one_line(message))
    return code


def _say(message: str) -> None:
    sys.stderr.write(f"afterturn: {message}\n")
