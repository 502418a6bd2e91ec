"""The answers of a pipeline as a DataFrame, read when Spark reads it.

The reader behind ``spark.read.format("triegs")``. Each scan shows one epoch, the newest when it is
read unless ``asOf`` says otherwise; two scans in one query of Spark may show two epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, Any

from triegs.errors import InputError
from triegs.spark.asking import ask

try:
    from pyspark.sql.datasource import DataSourceReader, InputPartition
except ImportError:  # without Spark nobody asks for these classes
    DataSourceReader = InputPartition = object

if TYPE_CHECKING:
    import pyarrow as pa

#: The options of such a DataFrame; Spark does not tell their letters' case.
ADDRESS, SECRET, QUERY, AS_OF = "pipeline", "secret", "query", "asOf"


def find_schema(options: Mapping[str, str]) -> str:
    """The columns of a DataFrame with these options."""
    if missing := [name for name in (ADDRESS, SECRET, QUERY) if name not in options]:
        raise InputError(
            f"a DataFrame of answers needs the option {missing[0]!r}; Pipeline.table gives them"
        )
    with Asked(options).ask("schema") as (told, _):
        columns: str = told["columns"]
        return columns


class Asked(InputPartition):  # type: ignore[misc]
    """Which answers, and of whom."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._link = options[ADDRESS], options[SECRET]
        self._query = options[QUERY]
        self._as_of = options.get(AS_OF)

    def ask(self, what: str) -> AbstractContextManager[tuple[dict[str, Any], IO[bytes]]]:
        as_of: int | str | None = self._as_of
        if self._as_of is not None and self._as_of.isdecimal():
            as_of = int(self._as_of)
        return ask(*self._link, do=what, query=self._query, as_of=as_of)


class SnapshotReader(DataSourceReader):  # type: ignore[misc]
    """Reads the answers of one epoch, in one task. Spark plans a DataFrame once, and reads it as
    often as it is used: so the epoch is chosen when it is read.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._asked = Asked(options)

    def partitions(self) -> list[Asked]:
        return [self._asked]

    def read(self, partition: Asked) -> Iterator[pa.RecordBatch]:
        """On an executor: the answers."""
        import pyarrow as pa

        with partition.ask("read") as (_, behind):
            yield from pa.ipc.open_stream(behind)
