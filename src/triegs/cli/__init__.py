"""The ``triegs`` command line.

Results go to standard output, everything else to standard error. The exit code is 0 for success, 1
for failure, and 2 for a usage error.
"""

from __future__ import annotations

import io
import sys

INTERRUPTED = 130


class WithoutPandas:
    """An import hook that blocks pandas.

    Arrow imports it, taking a third of a second, only to check argument types. Only the demo needs
    it, for Spark.
    """

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is disabled in commands", name=name)


def main() -> None:
    """The entry point of the ``triegs`` command."""
    for stream in (sys.stdout, sys.stderr):
        # Characters that the terminal cannot encode are escaped instead of failing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if "demo" not in sys.argv:
        sys.meta_path.insert(0, WithoutPandas())
    try:
        from triegs.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
