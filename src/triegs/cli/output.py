"""Writes results and handles the end of a command."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from triegs.errors import TriegsError

FAILED, INTERRUPTED = 1, 130
#: The disk has no room, which is a failure and no invalid usage.
FULL = (errno.ENOSPC, errno.EDQUOT)


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
    """Exit without a message on Ctrl-C and closed pipes, with one on a full disk or a
    `TriegsError`.
    """
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        discard_output()  # the reader is done
        raise typer.Exit from None
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        discard_output()
        fail(f"error: cannot write the results: {error.strerror}")
    except TriegsError as error:
        fail(f"error: {error}")
    finally:
        try:
            sys.stdout.flush()
        except OSError:  # it was reported above
            discard_output()


def discard_output() -> None:
    """Discard what standard output holds back, which would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
