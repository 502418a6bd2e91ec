"""The answers of a pipeline as a DataFrame, read when Spark reads it.

The reader behind ``spark.read.format("triegs")``. Each scan shows one epoch, the newest when the
scan is planned unless ``asOf`` says otherwise; two scans in one query may show two epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from triegs.errors import InputError
from triegs.spark.serving import ask

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
    with ask(options[ADDRESS], options[SECRET], do="schema", query=options[QUERY]) as (told, _):
        columns: str = told["columns"]
        return columns


def read_as_of(options: Mapping[str, str]) -> int | str | None:
    """The epoch by number or name; None for the newest."""
    given = options.get(AS_OF)
    return int(given) if given is not None and given.isdecimal() else given


def plan(options: Mapping[str, str]) -> str:
    """Pin what a scan shows; the name of the pin."""
    asked: dict[str, Any] = {"query": options[QUERY], "as_of": read_as_of(options)}
    with ask(options[ADDRESS], options[SECRET], do="plan", **asked) as (told, _):
        pin: str = told["pin"]
        return pin


def read(options: Mapping[str, str], pin: str) -> Iterator[pa.RecordBatch]:
    """The answers that were pinned."""
    import pyarrow as pa

    with ask(options[ADDRESS], options[SECRET], do="read", pin=pin) as (_, behind):
        yield from pa.ipc.open_stream(behind)
