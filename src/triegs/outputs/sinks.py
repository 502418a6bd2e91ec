"""Where answers go: standard output, a file, or a file per query, epoch or time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, cast

from triegs.errors import CannotWrite
from triegs.outputs.formats import BINARY, SINGLE, Options, Writer, open_writer
from triegs.outputs.result_batch import Head, ResultBatch

_PLACES = re.compile(r"\{(\w*)\}")
PLACES = ("query", "kind", "epoch", "time")
#: Places whose value changes while a run goes on.
CHANGING = frozenset({"kind", "epoch", "time"})


class Outputs:
    r"""The writers of all queries of a run, and the files behind them. A context manager.

    `path` is None for `stdout`, else a file name, in which ``{query}``, ``{kind}``, ``{epoch}`` and
    ``{time}`` stand for those of the result. Files are replaced, and directories made. Those that
    are known from the start are opened at once, so that what is wrong is told at once. `sizes` is
    what `measure` said in the run that this one goes on from: these files are cut to that length
    and gone on with.

    >>> from io import BytesIO
    >>> from triegs.outputs import Format
    >>> sink = BytesIO()
    >>> with Outputs([Head("q", ("x",))], Options(Format.CSV), None, sink) as outputs:
    ...     outputs.flush()
    >>> sink.getvalue()
    b'epoch,time,x,multiplicity\n'
    """

    def __init__(
        self,
        heads: Iterable[Head],
        options: Options,
        path: str | None,
        stdout: BinaryIO,
        *,
        width: int | None = None,
        is_coloured: bool = False,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self._heads = {head.query: head for head in heads}
        self._options = options
        self._path = path
        self._looks = {"width": width, "is_coloured": is_coloured} if path is None else {}
        self._sizes = sizes or {}
        self._sinks: dict[str, _Sink] = {}
        self._writers: dict[tuple[str, str], Writer] = {}
        places = find_places(path or "")
        self._is_mixed = len(self._heads) > 1 and "query" not in places
        try:
            if path is None:
                self._sinks[""] = _Sink(stdout, "the results", is_ours=False)
            if not CHANGING & set(places):
                for name in self._heads:
                    self._open(name, fill(path or "", query=name))
        except BaseException:
            self._close_sinks()
            raise

    def write(self, query: str, result: ResultBatch) -> int:
        """Write a result of that query; how many rows it had."""
        values = {"kind": result.kind, "epoch": result.epoch, "time": result.time}
        path = fill(self._path or "", query=query, **values)
        writer = self._writers.get((query, path))
        if writer is None:
            self._close_done(query, path)
            writer = self._open(query, path)
        return writer.write(result)

    def _open(self, query: str, path: str) -> Writer:
        if not self._is_mixed and any(
            other == path for name, other in self._writers if name != query
        ):
            raise CannotWrite(f"two queries would write {path}; give one another name")
        if path not in self._sinks:
            self._sinks[path] = self._make_sink(path)
        writer = open_writer(
            cast(BinaryIO, self._sinks[path]), self._heads[query], self._options,
            is_mixed=self._is_mixed, is_stream=not path or path.endswith(".arrows"),
            **cast(Any, self._looks),
        )  # fmt: skip
        self._writers[query, path] = writer
        return writer

    def _make_sink(self, path: str) -> _Sink:
        size = self._sizes.get(str(Path(path).resolve()))
        is_whole = self._options.format in SINGLE or {"epoch", "time"} & set(
            find_places(self._path or "")
        )
        if size is None or is_whole or not Path(path).exists():
            return _Sink(_create(path), path, is_ours=True)
        if self._options.format in BINARY:
            raise CannotWrite(
                f"{path} is complete, and a file of {self._options.format} cannot be gone on with; "
                "give another name, or one with {epoch} in it"
            )
        return _go_on(path, size)

    def measure(self) -> dict[str, int]:
        """How long the files are that this run writes, by their full names."""
        ours = {path: sink for path, sink in self._sinks.items() if path}
        return {str(Path(path).resolve()): sink.tell() for path, sink in ours.items()}

    def _close_done(self, query: str, path: str) -> None:
        """Close what this query wrote for an earlier epoch, if nobody else writes there."""
        places = set(find_places(self._path or ""))
        if not places & {"epoch", "time"}:
            return
        for each in [key for key in self._writers if key[0] == query and key[1] != path]:
            self._writers.pop(each).close()
            if all(other != each[1] for _, other in self._writers):
                self._sinks.pop(each[1]).close()

    def flush(self) -> None:
        """Let readers have what was written."""
        for sink in self._sinks.values():
            sink.flush()

    def close(self) -> None:
        """Complete and close all files."""
        with ExitStack() as stack:
            stack.callback(self._close_sinks)
            for writer in self._writers.values():
                stack.callback(writer.close)
            self._writers = {}

    def _close_sinks(self) -> None:
        with ExitStack() as stack:
            for sink in self._sinks.values():
                stack.callback(sink.close)
            self._sinks = {}

    def __enter__(self) -> Outputs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Sink:
    """A binary file that knows how much it was given: a pipe does not tell. What the disk refuses
    is `CannotWrite`, once: what is left in the buffer must not be refused again when it is closed.
    """

    def __init__(self, file: BinaryIO, name: str, *, is_ours: bool, size: int = 0) -> None:
        self._file = file
        self._name = name
        self._is_ours = is_ours
        self._size = size
        self._is_refused = False
        self.closed = False

    def write(self, data: Any) -> int:
        with self._naming():
            self._file.write(data)
        size = memoryview(data).nbytes
        self._size += size
        return size

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        with self._naming():
            self._file.flush()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            if not self._is_refused:
                self._is_refused = True
                raise CannotWrite.name(self._name, error) from error

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with self._naming():
                if self._is_ours:
                    self._file.close()
                else:
                    self._file.flush()


def _create(path: str) -> BinaryIO:
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        return place.open("wb")
    except OSError as error:
        raise CannotWrite.name(path, error) from None


def _go_on(path: str, size: int) -> _Sink:
    """Append to a file, without what is behind that length; one that is shorter is left so."""
    try:
        file = Path(path).open("r+b")  # noqa: SIM115
        file.truncate(min(size, file.seek(0, os.SEEK_END)))
        found = file.seek(0, os.SEEK_END)
    except OSError as error:
        raise CannotWrite.name(path, error) from None
    return _Sink(file, path, is_ours=True, size=found)


def find_places(path: str) -> list[str]:
    """The names in braces; `ValueError` for one that means nothing.

    >>> find_places("out/{query}-{epoch}.csv")
    ['query', 'epoch']
    """
    found = _PLACES.findall(path)
    wrong = [name for name in found if name not in PLACES]
    if wrong:
        known = ", ".join(f"{{{name}}}" for name in PLACES)
        raise ValueError(f"{{{wrong[0]}}} is none of {known}")
    return found


def fill(path: str, **values: object) -> str:
    """The path with the values in place of the names; what cannot stand in a file name becomes _.

    >>> fill("{query}-{epoch}.csv", query="a/b", epoch=3)
    'a_b-3.csv'
    """
    return _PLACES.sub(lambda match: re.sub(r"[^\w.+-]", "_", str(values[match[1]])), path)
