"""Events as files: one class per format, all columns at a time.

Formats differ in what they can express. CSV, JSON lines, Parquet and Arrow have all columns.
N-Quads and TriG have the time: facts are in a named graph, and a statement in the default graph
gives its time. N-Triples, Turtle and Jelly have no time; a reader gives each statement, or each
frame of Jelly, the next tick. None of these five can express deletions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

TIME_GRAPHS = "http://example.org/at/"
TIME_PROPERTY = "<http://www.w3.org/ns/prov#generatedAtTime>"
XSD = "http://www.w3.org/2001/XMLSchema#"
PACKED_DEFAULT = {"parquet": "snappy", "arrow": None}


class Writer(Protocol):
    """Takes batches of events in order; `close` writes the end of the file."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class Target(NamedTuple):
    """The destination of a file, and the settings of its writer.

    `packing` is the compression inside the format, for formats that have their own.
    """

    file: IO[bytes]
    schema: pa.Schema
    prefixes: Mapping[str, str]
    packing: str | None
    is_pipe: bool


class Format(NamedTuple):
    """A named format: its file extension, what it can express, and its writer."""

    ending: str
    open: Callable[[Target], Writer]
    has_op: bool
    has_time: bool
    is_binary: bool = False
    packs_itself: tuple[str, ...] | None = None


class ParquetEvents:
    def __init__(self, target: Target) -> None:
        from pyarrow.parquet import ParquetWriter

        packing = target.packing or PACKED_DEFAULT["parquet"]
        self._writer = ParquetWriter(target.file, target.schema, compression=packing)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class ArrowEvents:
    """A file in Arrow IPC format; on a pipe, the stream format."""

    def __init__(self, target: Target) -> None:
        import pyarrow as pa

        options = pa.ipc.IpcWriteOptions(compression=target.packing)
        make = pa.ipc.new_stream if target.is_pipe else pa.ipc.new_file
        self._writer = make(target.file, target.schema, options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class Lines:
    """Text formats: a header, then the text of each batch, then a footer."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._last: int | None = None
        self._put(self.make_head())

    def write(self, batch: pa.RecordBatch) -> None:
        lines = self.make_lines(batch)
        # The texts of an array are contiguous: they are already the contents of the file.
        ends = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset :][: len(lines) + 1]
        if len(lines):
            self._target.file.write(lines.buffers()[2].slice(int(ends[0]), int(ends[-1] - ends[0])))

    def close(self) -> None:
        self._put(self.make_end())

    def _put(self, text: str) -> None:
        if text:
            self._target.file.write(text.encode())

    def make_head(self) -> str:
        return ""

    def make_lines(self, batch: pa.RecordBatch) -> pa.Array:
        raise NotImplementedError

    def make_end(self) -> str:
        return ""

    def find_starts(self, times: pa.Array) -> pa.Array:
        """The rows whose time differs from that of the row before, in this batch or the last."""
        import pyarrow as pa

        values = times.to_numpy()
        is_new = np.ones(len(values), np.bool_)
        is_new[1:] = values[1:] != values[:-1]
        if len(values):
            is_new[0] = values[0] != self._last
            self._last = int(values[-1])
        return pa.array(is_new)


class CsvEvents(Lines):
    def make_head(self) -> str:
        return ",".join(self._target.schema.names) + "\n"

    def make_lines(self, batch: pa.RecordBatch) -> pa.Array:
        columns = [
            column if name == "op" else _quote_csv(column)
            for name, column in _write_columns(batch).items()
        ]
        return _join(*_interleave(columns, ","), "\n")


class JsonEvents(Lines):
    def make_lines(self, batch: pa.RecordBatch) -> pa.Array:
        parts: list[Any] = []
        for name, column in _write_columns(batch).items():
            quote = "" if name in ("time", "id") or _is_number(batch, name) else '"'
            mark = "," if parts else "{"
            parts += [f'{mark}"{name}":{quote}', _escape_json(column), quote]
        return _join(*parts, "}\n")


class TriplesEvents(Lines):
    def make_lines(self, batch: pa.RecordBatch) -> pa.Array:
        return _join(*_interleave(_list_terms(batch), " "), " .\n")


class QuadsEvents(Lines):
    def make_lines(self, batch: pa.RecordBatch) -> pa.Array:
        import pyarrow.compute as pc

        times = batch.column("time")
        graphs = _name_graphs(times)
        stamp = _join(graphs, f" {TIME_PROPERTY} ", _write_dates(times), " .\n")
        rows = _join(*_interleave([*_list_terms(batch), graphs], " "), " .\n")
        return _join(pc.if_else(self.find_starts(times), stamp, ""), rows)


class TurtleEvents(Lines):
    def make_head(self) -> str:
        return _declare(self._target.prefixes)

    def make_lines(self, batch: pa.RecordBatch) -> pa.Array:
        terms = [_shorten(column, self._target.prefixes) for column in _list_terms(batch)]
        return _join(*_interleave(terms, " "), " .\n")


class TrigEvents(Lines):
    def make_head(self) -> str:
        return _declare(self._target.prefixes)

    def make_lines(self, batch: pa.RecordBatch) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        times = batch.column("time")
        graphs = _name_graphs(times)
        was_open = self._last is not None
        stamp = _join(graphs, f" {TIME_PROPERTY} ", _write_dates(times), " .\n", graphs, " {\n")
        closing = np.full(len(times), "}\n", object)
        closing[: 0 if was_open else 1] = ""
        stamp = _join(pa.array(closing, pa.string()), stamp)
        terms = [_shorten(column, self._target.prefixes) for column in _list_terms(batch)]
        starts = pc.if_else(self.find_starts(times), stamp, "")
        return _join(starts, "  ", *_interleave(terms, " "), " .\n")

    def make_end(self) -> str:
        return "}\n" if self._last is not None else ""


class JellyEvents:
    """One frame for the facts of each time."""

    def __init__(self, target: Target) -> None:
        try:
            from pyjelly import jelly
            from pyjelly.integrations.generic.serialize import GenericSinkTermEncoder
            from pyjelly.serialize.ioutils import write_delimited
            from pyjelly.serialize.streams import SerializerOptions, TripleStream
        except ImportError:
            raise ModuleNotFoundError(
                "the format jelly needs the package pyjelly: pip install pyjelly"
            ) from None
        options = SerializerOptions(logical_type=jelly.LOGICAL_STREAM_TYPE_GRAPHS)
        encoder = GenericSinkTermEncoder(lookup_preset=options.lookup_preset)
        self._stream = TripleStream(encoder=encoder, options=options)
        self._stream.enroll()
        self._file = target.file
        self._write_frame = write_delimited
        self._last: int | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [column.to_pylist() for column in _list_terms(batch)]
        add = self._stream.triple
        for time, *terms in zip(batch.column("time").to_pylist(), *columns, strict=True):
            if time != self._last:
                self._end_frame()
                self._last = time
            add(map(read_jelly_term, terms))

    def close(self) -> None:
        self._end_frame()

    def _end_frame(self) -> None:
        if self._last is not None and (frame := self._stream.flow.to_stream_frame()):
            self._write_frame(frame, self._file)


FORMATS = {
    "csv": Format("csv", CsvEvents, has_op=True, has_time=True),
    "jsonl": Format("jsonl", JsonEvents, has_op=True, has_time=True),
    "parquet": Format(
        "parquet", ParquetEvents, has_op=True, has_time=True, is_binary=True,
        packs_itself=("gzip", "zstd"),
    ),
    "arrow": Format(
        "arrow", ArrowEvents, has_op=True, has_time=True, is_binary=True, packs_itself=("zstd",)
    ),
    "nt": Format("nt", TriplesEvents, has_op=False, has_time=False),
    "nq": Format("nq", QuadsEvents, has_op=False, has_time=True),
    "ttl": Format("ttl", TurtleEvents, has_op=False, has_time=False),
    "trig": Format("trig", TrigEvents, has_op=False, has_time=True),
    "jelly": Format("jelly", JellyEvents, has_op=False, has_time=False, is_binary=True),
}  # fmt: skip


_LITERAL = re.compile(r'"(.*)"(?:@([A-Za-z0-9-]+)|\^\^<(.*)>)?', re.DOTALL)


@lru_cache(maxsize=65_536)
def read_jelly_term(term: str) -> Any:
    """An IRI or a literal of the workloads, which needs no escapes, as a pyjelly term."""
    from pyjelly.integrations.generic.generic_sink import IRI, Literal

    if term.startswith("<"):
        return IRI(term[1:-1])
    match = _LITERAL.fullmatch(term)
    assert match is not None
    return Literal(*match.groups())


def _join(*parts: Any) -> pa.Array:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*parts, "")


def _interleave(columns: list[Any], mark: str) -> list[Any]:
    first, *rest = columns
    return [first, *(part for column in rest for part in (mark, column))]


def _list_terms(batch: pa.RecordBatch) -> list[pa.Array]:
    return [_decode(batch.column(name)) for name in ("subject", "predicate", "object")]


def _decode(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    return column.cast(pa.string())


def _is_number(batch: pa.RecordBatch, name: str) -> bool:
    import pyarrow as pa

    return name != "op" and bool(pa.types.is_integer(batch.schema.field(name).type))


def _write_columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """All columns as texts, with + and - as signs."""
    import pyarrow.compute as pc

    return {
        name: pc.if_else(pc.greater(batch.column(name), 0), "+", "-")
        if name == "op"
        else _decode(batch.column(name))
        for name in batch.schema.names
    }


def _quote_csv(column: pa.Array) -> pa.Array:
    """Quote literals for CSV; terms without quotes contain no other special characters."""
    import pyarrow.compute as pc

    doubled = _join('"', pc.replace_substring(column, '"', '""'), '"')
    return pc.if_else(pc.match_substring_regex(column, '[",\r\n]'), doubled, column)


def _escape_json(column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')


def _name_graphs(times: pa.Array) -> pa.Array:
    return _join(f"<{TIME_GRAPHS}", _decode(times), ">")


def _write_dates(times: pa.Array) -> pa.Array:
    import pyarrow as pa

    dates = np.datetime_as_string(times.to_numpy().astype("datetime64[ms]"))
    return _join('"', pa.array(dates, pa.string()), f'Z"^^<{XSD}dateTime>')


def _declare(prefixes: Mapping[str, str]) -> str:
    return "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in prefixes.items())


def _shorten(column: pa.Array, prefixes: Mapping[str, str]) -> pa.Array:
    """Abbreviate terms with prefixes if the local name is plain; each distinct term once."""
    import pyarrow.compute as pc

    coded = column.dictionary_encode()
    terms = coded.dictionary
    for name, iri in prefixes.items():
        pattern = rf"^((?s:.*)\^\^)?<{re.escape(iri)}([A-Za-z][A-Za-z0-9]*)>$"
        terms = pc.replace_substring_regex(terms, pattern, rf"\1{name}:\2")
    return terms.take(coded.indices)
