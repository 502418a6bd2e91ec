"""The command line: ``triegs run``, ``explain``, ``generate``, ``demo``, ``warm``.

Results go to standard output, everything else to standard error. The exit code is 0, or 1 for
work that failed, or 2 for a wrong call.
"""

from __future__ import annotations

import io
import sys

INTERRUPTED = 130


class WithoutPandas:
    """Arrow imports pandas, a third of a second, only to find that a list is none of its columns.
    Commands have no use for it, but for the demo, which has Spark.
    """

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("commands do without pandas", name=name)


def main() -> None:
    """The entry point of the ``triegs`` command."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a letter shows its code; that is better than no output.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if "demo" not in sys.argv:
        sys.meta_path.insert(0, WithoutPandas())
    try:
        from triegs.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
