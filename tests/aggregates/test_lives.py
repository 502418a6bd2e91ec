"""Random grouped queries over random streams equal the oracle after every epoch."""

from __future__ import annotations

import os

import pytest
from tests.aggregates.lives import run_life

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")


@pytest.mark.parametrize("seed", range(3_000 if SOAK else 20))
def test_random_lives(seed):
    run_life(seed, 40 if SOAK else 15)


@pytest.mark.parametrize("seed", range(100 if SOAK else 5))
def test_random_lives_with_retained_epochs(seed):
    run_life(1_000_000 + seed, 15, retain_epochs=3)
