"""Output destinations: standard output, a file, or a file per query, kind, epoch or time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from triegs.closing import Closing
from triegs.errors import CannotWrite
from triegs.outputs.formats import BINARY, SINGLE, Options, Writer, open_writer
from triegs.outputs.result_batch import Head, ResultBatch

_PLACEHOLDER = re.compile(r"\{(\w*)\}")
PLACEHOLDERS = ("query", "kind", "epoch", "time")
#: Placeholders whose value changes during a run.
CHANGING = frozenset({"kind", "epoch", "time"})


class Outputs(Closing):
    r"""The writers of all queries of a run and their files. A context manager.

    `path` is None for `stdout`, else a file name with the optional placeholders ``{query}``,
    ``{kind}``, ``{epoch}`` and ``{time}``. Existing files are replaced, and directories created.
    Files whose names are known in advance are opened at once, so that errors show early. `sizes` is
    the result of `measure` in the run that is resumed: those files are truncated to that size and
    continued.

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
        placeholders = find_placeholders(path or "")
        self._is_mixed = len(self._heads) > 1 and "query" not in placeholders
        try:
            if path is None:
                self._sinks[""] = _Sink(stdout, "the results", is_ours=False)
            if not CHANGING & set(placeholders):
                for name in self._heads:
                    self._open(name, fill(path or "", query=name))
        except BaseException:
            self._close_sinks()
            raise

    def write(self, query: str, result: ResultBatch) -> int:
        """Write a result batch of a query; returns its number of rows."""
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
            raise CannotWrite(f"two queries would write to {path}; rename one of them")
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
            find_placeholders(self._path or "")
        )
        if size is None or is_whole or not Path(path).exists():
            return _Sink(_create(path), path, is_ours=True)
        if self._options.format in BINARY:
            raise CannotWrite(
                f"cannot append to {path}: {self._options.format} files are complete once closed; "
                "use another name, or one with {epoch}"
            )
        return _append_to(path, size)

    def measure(self) -> dict[str, int]:
        """The current sizes of the written files, by full path."""
        ours = {path: sink for path, sink in self._sinks.items() if path}
        return {str(Path(path).resolve()): sink.tell() for path, sink in ours.items()}

    def _close_done(self, query: str, path: str) -> None:
        """Close the files of this query for earlier epochs, unless another query writes to them."""
        placeholders = set(find_placeholders(self._path or ""))
        if not placeholders & {"epoch", "time"}:
            return
        for each in [key for key in self._writers if key[0] == query and key[1] != path]:
            self._writers.pop(each).close()
            if all(other != each[1] for _, other in self._writers):
                self._sinks.pop(each[1]).close()

    def flush(self) -> None:
        """Flush all files."""
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


class _Sink:
    """A binary file that counts the bytes written, which a pipe does not.

    A failed write raises `CannotWrite` once; buffered data must not raise again on close.
    """

    def __init__(self, file: BinaryIO, name: str, *, is_ours: bool, size: int = 0) -> None:
        self._file = file
        self._name = name
        self._is_ours = is_ours
        self._size = size
        self._has_failed = False
        self.closed = False

    def write(self, data: Any) -> int:
        with self._converting_errors():
            self._file.write(data)
        size = memoryview(data).nbytes
        self._size += size
        return size

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        with self._converting_errors():
            self._file.flush()

    @contextmanager
    def _converting_errors(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
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
            with self._converting_errors():
                if self._is_ours:
                    self._file.close()
                else:
                    self._file.flush()


def _create(path: str) -> BinaryIO:
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("wb")
    except OSError as error:
        raise CannotWrite.name(path, error) from error


def _append_to(path: str, size: int) -> _Sink:
    """Truncate a file to `size`, if it is longer, and append to it."""
    try:
        file = Path(path).open("r+b")  # noqa: SIM115
        file.truncate(min(size, file.seek(0, os.SEEK_END)))
        found = file.seek(0, os.SEEK_END)
    except OSError as error:
        raise CannotWrite.name(path, error) from error
    return _Sink(file, path, is_ours=True, size=found)


def find_placeholders(path: str) -> list[str]:
    """The placeholders in a path; `ValueError` for an unknown one.

    >>> find_placeholders("out/{query}-{epoch}.csv")
    ['query', 'epoch']
    """
    found = _PLACEHOLDER.findall(path)
    wrong = [name for name in found if name not in PLACEHOLDERS]
    if wrong:
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise ValueError(f"unknown placeholder {{{wrong[0]}}}; use {known}")
    return found


def fill(path: str, **values: object) -> str:
    """The path with placeholders replaced; characters unsuitable for file names become _.

    >>> fill("{query}-{epoch}.csv", query="a/b", epoch=3)
    'a_b-3.csv'
    """
    return _PLACEHOLDER.sub(lambda match: re.sub(r"[^\w.+-]", "_", str(values[match[1]])), path)
