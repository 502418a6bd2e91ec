"""The inputs of ``triegs run``: streams and their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import typer

from triegs.cli.output import fail
from triegs.cli.run import Request
from triegs.errors import InputError, MappingError
from triegs.events import Source, open_input
from triegs.names import BASE, check_base
from triegs.run.bookmarks import read_start
from triegs.run.followed_file import FollowedFile
from triegs.run.stop import Stop
from triegs.sparql.window import Window

#: The paths of each stream; None is the single unnamed stream.
Streams = dict[str | None, list[str]]


def find_streams(
    request: Request, windows: Iterable[Window], prefixes: Mapping[str, str]
) -> Streams:
    """The paths of each stream that the windows read."""
    given = list(request.inputs or ())
    names = sorted({window.stream for window in windows}, key=lambda name: name or "")
    streams: Streams = {}
    for entry in request.streams or ():
        name, sign, path = entry.partition("=")
        if not sign or not path:
            reject(f"{entry!r} is not NAME=FILE", "--stream")
        found = [each for each in names if each is not None and is_name(each, name, prefixes)]
        if not found:
            known = ", ".join(name for name in names if name is not None) or "no named stream"
            reject(f"no window reads the stream {name}; the windows read {known}", "--stream")
        streams.setdefault(found[0], []).append(path)
    left = [name for name in names or [None] if name not in streams]
    if len(left) > 1:
        known = ", ".join(name or "an unnamed stream" for name in left)
        reject(f"windows read several streams; assign files with --stream NAME=FILE: {known}",
              "--input")  # fmt: skip
    if left and not given:
        what = f" for the stream {left[0]}" if left[0] else "; give a file, a directory, or -"
        reject(f"no input{what}", "--input")
    if given and not left:
        reject("all streams have files already, from --stream", "--input")
    if left:
        streams[left[0]] = given
    return streams


def is_name(stream: str, given: str, prefixes: Mapping[str, str]) -> bool:
    """Whether a name refers to a stream, in full, in brackets or with a prefix.

    >>> is_name("<http://ex/s>", "ex:s", {"ex": "http://ex/"}), is_name("<a:b>", "a:b", {})
    (True, True)
    """
    bare = given.removeprefix("<").removesuffix(">")
    prefix, sign, local = bare.partition(":")
    full = prefixes[prefix] + local if sign and prefix in prefixes else bare
    return stream.removeprefix("<").removesuffix(">") in (bare, full)


def open_sources(
    request: Request,
    streams: Streams,
    prefixes: Mapping[str, str],
    known: Mapping[str, str],
    stop: Stop,
    stack: ExitStack,
    positions: Mapping[str, Any] | None = None,
    is_timed: bool = False,
) -> dict[str | None, Source]:
    """Open a source per stream, resuming from `positions`; `stack` closes them.

    `known` includes the prefixes of queries.
    """
    if request.follow and (len(streams) > 1 or any(len(paths) > 1 for paths in streams.values())):
        reject("only a single file can be followed", "--follow")
    columns = read_columns(request.columns or ())
    graph_time = expand_property(request.graph_time, known)
    make = choose_source(request, stack)
    if request.quarantine is not None and not positions:
        make_empty(request.quarantine)
    sources: dict[str | None, Source] = {}
    for name, paths in streams.items():
        given: list[Any] = [follow(path, stop) for path in paths] if request.follow else list(paths)
        start = {"tick": 0} if positions is None else read_start(positions, name)
        try:
            # All sources share the quarantine file; one with a start position appends to it.
            source = open_input(
                given, format=request.input_format, columns=columns, terms=request.terms,
                prefixes=prefixes, strict=request.strict, quarantine=request.quarantine,
                graph_time=graph_time, start=start, make=make, map=request.map or None,
                base=request.base, stream=name, time_unit=request.time_unit, is_timed=is_timed,
                delimiter="\t" if request.delimiter in ("tab", "\\t") else request.delimiter,
                encoding=request.encoding,
            )  # fmt: skip
        except InputError as error:
            if positions:
                fail(f"error: {error}")
            option = "--map" if isinstance(error, MappingError) else "--input"
            if error.option:
                option = f"--{error.option.replace('_', '-')}"
            raise typer.BadParameter(str(error), param_hint=option) from None
        source.skip_quarantined(start.get("told", 0))
        sources[name] = stack.enter_context(source)
    return sources


def expand_property(text: str | None, prefixes: Mapping[str, str]) -> str | None:
    """Expand an IRI that may have a prefix.

    >>> expand_property("prov:generatedAtTime", {"prov": "http://www.w3.org/ns/prov#"})
    'http://www.w3.org/ns/prov#generatedAtTime'
    """
    if text is None or text.startswith("<"):
        return text
    prefix, sign, local = text.partition(":")
    if sign and prefix in prefixes and not local.startswith("//"):
        return prefixes[prefix] + local
    if not sign or (prefix.lower() not in ("urn", "tag") and not local.startswith("//")):
        reject(f"{text!r} is not an IRI; declare --prefix {prefix if sign else 'ex'}=IRI, "
              "or write it in full", "--graph-time")  # fmt: skip
    return text


def read_base(request: Request, prefixes: dict[str, str]) -> str:
    """The base of plain names, also declared as the empty prefix; empty without a mapping."""
    if not request.map:
        if request.base is not None:
            reject("requires --map", "--base")
        return ""
    if request.terms != "ntriples":
        reject("not with --map, whose templates say what cells contain", "--terms")
    try:
        base = check_base(request.base or BASE)
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint="--base") from None
    prefixes.setdefault("", base)
    return base


def choose_source(request: Request, stack: ExitStack) -> Callable[..., Source]:
    """The source class. Starts Spark if requested; `stack` stops it."""
    if request.engine != "spark":
        return Source
    if request.follow:
        reject("not supported with --engine spark; use --engine direct", "--follow")
    from triegs.spark import LocalSpark, SparkSource

    return partial(SparkSource, spark=stack.enter_context(LocalSpark()))


def make_empty(path: str) -> None:
    try:
        Path(path).write_bytes(b"")
    except OSError as error:
        reject(f"cannot write {path}: {error.strerror}", "--quarantine")


def follow(path: str, stop: Stop) -> FollowedFile:
    if path.endswith((".gz", ".zst")):
        reject(f"{path} is compressed; only plain text can be followed", "--follow")
    try:
        return FollowedFile(path, lambda: stop.is_requested)
    except OSError as error:
        message = f"cannot follow {path}: {error.strerror}"
        raise typer.BadParameter(message, param_hint="--follow") from None


def read_columns(given: Iterable[str]) -> dict[str, str]:
    """
    >>> read_columns(["time=ts,id=event", "op=sign"])
    {'time': 'ts', 'id': 'event', 'op': 'sign'}
    """
    columns: dict[str, str] = {}
    for entry in (entry for text in given for entry in text.split(",")):
        ours, sign, theirs = entry.partition("=")
        if not sign or not theirs.strip():
            reject(f"{entry!r} is not OURS=THEIRS", "--columns")
        if ours.strip() in columns:
            reject(f"{ours.strip()} is given twice", "--columns")
        columns[ours.strip()] = theirs.strip()
    return columns


def reject(message: str, option: str) -> NoReturn:
    """Exit with a usage error about an option."""
    raise typer.BadParameter(message, param_hint=option)


class InputSize:
    """The fraction of all inputs that was read, or None if unknown."""

    def __init__(self, streams: Streams, sources: Mapping[str | None, Source]) -> None:
        files = [
            file
            for path in map(Path, (path for paths in streams.values() for path in paths))
            for file in (path.iterdir() if path.is_dir() else [path])
            if file.is_file()
        ]
        self._sizes = {str(file): file.stat().st_size for file in files}
        self._total = sum(self._sizes.values())
        self._sources = list(sources.values())

    def __call__(self) -> float | None:
        done = 0
        for source in self._sources:
            files = source.report.files
            if not files:
                continue
            offset = source.position.get("place", {}).get("offset")
            if offset is None or files[-1].endswith((".gz", ".zst")):
                return None
            done += sum(self._sizes.get(name, 0) for name in files[:-1]) + offset
        return done / self._total if self._total else None
