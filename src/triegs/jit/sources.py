"""The identity of kernels: what their machine code depends on.

Numba checks only the file of a function to decide whether its cached code is stale. It would miss a
change in a callee, and the old code would give wrong answers. So compiled code is kept under a name
made from the sources of all kernels. Where the sources are does not matter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def list_sources(package: Path = PACKAGE) -> Iterator[tuple[str, bytes]]:
    """The files whose code may end up in a kernel, with their contents: this folder, and all
    importers of `triegs.jit.jit`. Every process does this, so it does without `Path`.
    """
    for folder, subfolders, names in os.walk(package):
        subfolders.sort()
        is_kernels = os.path.basename(folder) in ("kernels", "jit")  # noqa: PTH119
        for name in sorted(names):
            if name.endswith(".py"):
                path = f"{folder}{os.sep}{name}"
                with open(path, "rb") as file:  # noqa: PTH123
                    text = file.read()
                if is_kernels or b"triegs.jit.jit" in text:
                    yield os.path.relpath(path, package).replace(os.sep, "/"), text


@cache
def hash_sources(package: Path = PACKAGE) -> str:
    digest = blake2b(digest_size=8)
    for name, text in list_sources(package):
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(text), text))
    return digest.hexdigest()
