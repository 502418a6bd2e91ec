"""Writes results and handles the end of a command."""

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
    """Write to standard output and flush, so that a closed pipe is detected here."""
    sys.stdout.write(text)
    sys.stdout.flush()


def fail(message: str) -> NoReturn:
    """Exit with a failure and a message on standard error."""
    sys.stderr.write(f"{message}\n")
    raise typer.Exit(FAILED)


@contextmanager
def quiet_exit() -> Iterator[None]:
    """Exit without a message on Ctrl-C and closed pipes, with one on a `TriegsError`."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader is done. Discard the buffer, which would fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None
    except TriegsError as error:
        fail(f"error: {error}")
