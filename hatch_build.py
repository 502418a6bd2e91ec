"""Puts compiled kernels into a wheel.

`TRIEGS_OBJECTS` names their folder, which `make wheel` fills; without it the wheel is the same for
every platform. A wheel with machine code names the platform and the Python that it is for. There it
starts at once; where versions or the processor differ, its kernels are compiled as usual.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledKernels(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = os.environ.get("TRIEGS_OBJECTS")
        if self.target_name != "wheel" or version != "standard" or not folder:
            return
        objects = Path(folder).resolve()
        if not (objects / "all").exists():
            raise ValueError(f"{objects} does not hold all kernels")
        python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-{python}-{platform}"
        build_data["force_include"][str(objects)] = f"triegs/compiled/{objects.name}"
