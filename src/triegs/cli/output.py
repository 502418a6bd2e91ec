"""Writing results, and ending without noise."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from triegs.errors import TriegsError

FAILED, INTERRUPTED = 1, 130


def write_result(text: str) -> None:
    """Write to standard output, now: a reader that has gone is noticed here."""
    sys.stdout.write(text)
    sys.stdout.flush()


def fail(message: str) -> NoReturn:
    """End the command as failed work, with one message on standard error."""
    sys.stderr.write(f"{message}\n")
    raise typer.Exit(FAILED)


@contextmanager
def quiet_exit() -> Iterator[None]:
    """Ctrl-C and a closed pipe end a command without a message, an error of ours with one."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader has what it wanted. What is still in the buffer must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None
    except TriegsError as error:
        fail(f"error: {error}")
