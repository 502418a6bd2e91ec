"""The command line: ``triegs run``, ``explain``, ``generate``, ``demo``, ``warm``.

Results go to standard output, everything else to standard error. The exit code is 0, or 1 for
work that failed, or 2 for a wrong call.
"""

from __future__ import annotations

import io
import sys

INTERRUPTED = 130


def main() -> None:
    """The entry point of the ``triegs`` command."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a letter shows its code; that is better than no output.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        from triegs.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
