"""One Spark session for all tests of a process; skipped where Spark cannot run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.spark.archive import choose_settings

from triegs.spark import LocalSpark, SparkMissing
from triegs.spark.session import SETTINGS


@pytest.fixture(scope="session")
def spark() -> Iterator[LocalSpark]:
    try:
        found = LocalSpark()
    except SparkMissing as missing:
        pytest.skip(str(missing))
    with found, pytest.MonkeyPatch.context() as patch:
        for name, value in choose_settings().items():
            patch.setitem(SETTINGS, name, value)
        # Generating and compiling Java, for each plan and for each projection of each state
        # variable, takes longer than running without. Processes of their own do generate it.
        found.get().conf.set("spark.sql.codegen.wholeStage", "false")
        found.get().conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        # Planning again after each stage takes longer than anything that it could save here.
        found.get().conf.set("spark.sql.adaptive.enabled", "false")
        yield found
