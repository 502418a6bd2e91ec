"""What arenas take of the machine before anything is in them."""

from __future__ import annotations

import os

import pytest

from triegs.store.kernels.layout import LIMIT
from triegs.store.kernels.memory import NORESERVE, make_arena


@pytest.mark.skipif(not NORESERVE, reason="the system counts what is reserved as used")
def test_a_process_with_many_arenas_can_fork() -> None:
    arenas = [make_arena() for _ in range(6)]  # each as large as the machine's memory
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)
    assert all(arena[LIMIT] for arena in arenas)
