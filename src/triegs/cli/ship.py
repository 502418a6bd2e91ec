"""``python -m triegs.cli.ship FOLDER``: compile the kernels for the processors of a wheel.

Prints the folder that `TRIEGS_OBJECTS` of ``hatch_build.py`` names. Compiling is done by another
process, because Numba settles for a processor when it is imported. Costs a minute or two, once for
these sources.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
from triegs.cli.warm_command import run_warm
from triegs.engine.warmth import find_mark
run_warm()
print(find_mark().parent)
"""


def compile_for_wheel(cache: Path) -> Path:
    """The folder of the compiled kernels, within this one."""
    from triegs.jit.objects import list_target_settings

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, encoding="utf-8", stdout=subprocess.PIPE,
        env=os.environ | list_target_settings() | {"TRIEGS_CACHE": str(cache.resolve())},
    )  # fmt: skip
    return Path(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.stdout.write(f"{compile_for_wheel(Path(sys.argv[1]))}\n")
