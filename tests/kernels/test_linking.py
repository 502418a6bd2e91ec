"""Functions that become parts of others."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from numba.core import inline_closurecall as numba_inliner
from numba.core import ir

from triegs.jit import jit
from triegs.jit.linking import BlockCopies, shared_scopes

inliner: Any = numba_inliner
HERE = ir.Loc("here", 1)


def make_blocks() -> list[ir.Block]:
    """Two blocks of one function with a variable each."""
    scope = ir.Scope(None, HERE)
    blocks = [ir.Block(scope, HERE) for _ in range(2)]
    for number, block in enumerate(blocks):
        block.append(ir.Del(scope.define(f"v{number}", HERE).name, HERE))
    return blocks


def test_blocks_of_one_copy_share_their_scope() -> None:
    blocks, copies = make_blocks(), BlockCopies()
    first = [copies.deepcopy(block) for block in blocks]
    second = [copies.deepcopy(block) for block in blocks]
    other = [copies.deepcopy(block) for block in make_blocks()]
    scopes = [{id(block.scope) for block in made} for made in (blocks, first, second, other)]
    assert [len(found) for found in scopes] == [1] * 4
    assert len(set.union(*scopes)) == 4
    assert len({id(block) for made in (blocks, first, second) for block in made}) == 6
    assert [set(block.scope.localvars._con) for block in first] == [{"v0", "v1"}] * 2


def test_numba_has_its_own_copies_back() -> None:
    with suppress(KeyError), shared_scopes():
        assert inliner.copy is not copy
        raise KeyError("a compilation that fails")
    assert inliner.copy is copy


@pytest.mark.skipif(not jit.COMPILED, reason="nothing is compiled")
def test_merged_functions_keep_their_variables_apart() -> None:
    """All of them have variables of the same names, in several blocks."""

    def add_below(words: np.ndarray, limit: int) -> int:
        total = 0
        for index in range(words.size):
            if words[index] < limit:
                total += words[index]
        return total

    add_merged = jit.make_linked(add_below, {"inline": "always"}, kept=False)

    def add_twice(words: np.ndarray, limit: int) -> int:
        total = 1000
        for index in range(2):
            total += add_merged(words, limit + index)
        return total + add_merged(words, total)

    entry = jit.make_entry(add_twice, kept=False)
    assert entry(np.arange(5), 2) == 1000 + 1 + 3 + 10
