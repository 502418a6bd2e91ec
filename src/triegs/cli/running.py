"""``triegs run``: from the options to a run, and to an exit code."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa
import typer

from triegs.cli.output import FAILED, fail
from triegs.cli.progress import Progress, SharedTerminal, is_terminal
from triegs.cli.queries import read_prefixes, show_query_error
from triegs.cli.run import Request
from triegs.engine import Engine, StandingQuery
from triegs.errors import InputError, QueryError, TriegsError
from triegs.inputs import Source, open_input
from triegs.outputs import (
    CannotWrite,
    Format,
    Head,
    Multiplicity,
    Options,
    Outputs,
    TermText,
    find_format,
)
from triegs.outputs.formats import BINARY, MIXED, RESULTS, SINGLE
from triegs.outputs.sinks import find_places
from triegs.outputs.table import find_width
from triegs.outputs.texts import find_prefixes
from triegs.run.driver import Run
from triegs.run.epochs import AppliedEpochs, Epochs, WholeBatches
from triegs.run.following import FollowedFile
from triegs.run.refusals import Refusals
from triegs.run.reporting import Asked, Emit, Reporter, When
from triegs.run.statistics import Statistics, describe
from triegs.run.stopping import Stop, Stopped
from triegs.sparql import parse
from triegs.sparql.model import Form

LOG = logging.getLogger("triegs")
_NAMED = re.compile(r"([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
FOLLOWED = ("csv", "tsv", "jsonl", "n-triples", "n-quads")


class Given(NamedTuple):
    """A query as it was given: its name, its text, and where that is from."""

    name: str
    text: str
    source: str


def run_queries(request: Request) -> int:
    """Do what was asked for; the exit code."""
    with showing_log(request.log_level):
        return _run(request)


def _run(request: Request) -> int:
    prefixes = read_prefixes(request.prefixes or ())
    queries = read_queries(request.queries)
    check_texts(queries, prefixes)
    options = read_options(request, len(queries))
    for path in request.static or ():
        if not is_file(path):
            wrong(f"{path}: there is no such file", "--static")
    stop = Stop()
    with ExitStack() as stack:
        stack.enter_context(stop.heeding())
        source = stack.enter_context(open_source(request, prefixes, stop))
        refusals = stack.enter_context(Refusals(request.quarantine))
        engine = stack.enter_context(Engine(request.mode, prefixes=prefixes))
        asked = [register(engine, each, options) for each in queries]
        progress = Progress(
            request.progress and is_terminal(sys.stderr), InputSize(request.inputs or (), source)
        )
        stack.callback(progress.hide)
        outputs = stack.enter_context(
            open_outputs(request, options, asked, queries, prefixes, progress)
        )
        first = read_first(source, stop)
        epochs, every = choose_epochs(request, engine, options, source)
        reporter = Reporter(asked, outputs, every)
        reporter.begin()
        load_static(engine, request.static or ())
        batches = source if first is None else chain([first], source)
        run = Run(engine, batches, epochs, reporter, stop, progress.update, refusals=refusals)
        run.go()
    show_losses(source, refusals, request.quarantine)
    if request.stats:
        show_statistics(run.statistics, engine, source)
    return finish(request, source, reporter, stop)


@contextmanager
def showing_log(level: str) -> Iterator[None]:
    """Messages of the package on standard error, from that level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    before = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(level.upper())
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(before)


# Queries


def read_queries(given: Iterable[str]) -> list[Given]:
    """The texts of files, or what was given itself if it is a text; names are unique."""
    found: list[Given] = []
    for number, argument in enumerate(given, 1):
        named = _NAMED.fullmatch(argument)
        name, rest = (named[1], named[2]) if named else ("", argument)
        if "{" in rest and not is_file(rest):
            found.append(Given(name or f"query{number}", rest, f"query {number}"))
            continue
        path = Path(rest)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            fail(f"error: {path} is not UTF-8 text (byte {error.start})")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise typer.BadParameter(
                f"cannot read {rest}: {reason}; a query is a file or a text", param_hint="QUERY"
            ) from None
        found.append(Given(name or path.stem, text, rest))
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise typer.BadParameter(
                f"two queries are called {name}; name=QUERY gives another name", param_hint="QUERY"
            )
    return found


def is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def check_texts(queries: Iterable[Given], prefixes: Mapping[str, str]) -> None:
    """Tell what is wrong with a text before anything is opened."""
    for each in queries:
        try:
            parse(each.text, prefixes)
        except QueryError as error:
            fail(show_query_error(error, each.text, each.source))


def register(engine: Engine, given: Given, options: Options) -> Asked:
    try:
        query = engine.register(given.text, given.name)
    except QueryError as error:
        fail(show_query_error(error, given.text, given.source))
    LOG.info("registered %s: %s", query.name, query.plan.plan_class.value)
    return Asked(query, options.kinds)


# Outputs


def read_options(request: Request, queries: int) -> Options:
    """How to write, and whether that makes sense."""
    path = request.output
    try:
        places = set(find_places(path or ""))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--output") from None
    chosen = Format(request.output_format) if request.output_format else None
    kind = chosen or find_format(path or "") or Format.TABLE
    multiplicity = Multiplicity(request.multiplicity) if request.multiplicity else None
    emit = Emit(request.emit or Emit.SNAPSHOT)
    if multiplicity is Multiplicity.NONE and emit is not Emit.SNAPSHOT:
        wrong("a change without its number says nothing", "--multiplicity")
    if request.result_terms and kind in RESULTS:
        wrong(f"the format {kind} says itself how terms are written", "--result-terms")
    if queries > 1 and kind not in MIXED and "query" not in places:
        wrong(f"queries have columns of their own; {kind} needs {{query}} in its name", "--output")
    if kind in BINARY and path is None and sys.stdout.isatty():
        wrong(f"{kind} is not for a terminal; name a file or use a pipe", "--output")
    if kind in SINGLE and not places & {"epoch", "time"}:
        if request.every not in (None, When.END):
            wrong(f"{kind} is one result; --every end, or {{epoch}} in its name", "--output")
        if emit is Emit.BOTH and "kind" not in places:
            wrong(f"{kind} is one result; --emit both needs {{kind}} in its name", "--output")
    terms = TermText(request.result_terms) if request.result_terms else None
    return Options(kind, emit.kinds, multiplicity, terms, request.stamps, request.rows)


def wrong(message: str, option: str) -> None:
    raise typer.BadParameter(message, param_hint=option)


def open_outputs(
    request: Request,
    options: Options,
    asked: Iterable[Asked],
    queries: Iterable[Given],
    prefixes: Mapping[str, str],
    progress: Progress,
) -> Outputs:
    known = dict(prefixes) | find_prefixes(each.text for each in queries)
    heads = [describe_head(each.query, known) for each in asked]
    stdout: Any = sys.stdout.buffer
    is_seen = request.output is None and is_terminal(sys.stdout)
    if is_seen:
        stdout = SharedTerminal(stdout, progress)
    try:
        return Outputs(
            heads, options, request.output, cast(BinaryIO, stdout),
            width=find_width(stdout), is_coloured=is_seen and not no_colour(),
        )  # fmt: skip
    except CannotWrite as error:
        raise typer.BadParameter(str(error), param_hint="--output") from None


def describe_head(query: StandingQuery, prefixes: dict[str, str]) -> Head:
    names = tuple(name.lstrip("?") for name in query.query.head)
    return Head(query.name, names, query.query.form is Form.ASK, prefixes)


def no_colour() -> bool:
    return bool(os.environ.get("NO_COLOR"))


# Inputs


def open_source(request: Request, prefixes: Mapping[str, str], stop: Stop) -> Source:
    paths: list[Any] = list(request.inputs or ())
    if not paths:
        wrong("there is no input; name a file, a directory, or - for standard input", "--input")
    if request.follow:
        paths = [follow(path, stop) for path in paths]
        if len(paths) > 1:
            wrong("one file can be followed, not several", "--follow")
    # What is malformed and what the engine refuses go to one file; so both append to it.
    start = None
    if request.quarantine is not None:
        start = {"tick": 0}
        try:
            Path(request.quarantine).write_bytes(b"")
        except OSError as error:
            wrong(f"cannot write {request.quarantine}: {error.strerror}", "--quarantine")
    try:
        return open_input(
            paths, start=start, format=request.input_format, columns=read_columns(request.columns or ()),
            terms=request.terms, prefixes=prefixes, strict=request.strict,
            quarantine=request.quarantine,
        )  # fmt: skip
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint="--input") from None


def follow(path: str, stop: Stop) -> FollowedFile:
    try:
        return FollowedFile(path, lambda: stop.is_asked)
    except OSError as error:
        message = f"cannot follow {path}: {error.strerror}"
        raise typer.BadParameter(message, param_hint="--follow") from None


def read_columns(given: Iterable[str]) -> dict[str, str]:
    """
    >>> read_columns(["time=ts,id=event", "op=sign"])
    {'time': 'ts', 'id': 'event', 'op': 'sign'}
    """
    columns: dict[str, str] = {}
    for part in (part for text in given for part in text.split(",")):
        ours, sign, theirs = part.partition("=")
        if not sign or not theirs.strip():
            wrong(f"{part!r} is not OURS=THEIRS", "--columns")
        columns[ours.strip()] = theirs.strip()
    return columns


def read_first(source: Source, stop: Stop) -> pa.RecordBatch | None:
    """The first batch; it tells whether events have times of their own."""
    try:
        with stop.waiting():
            return next(iter(source), None)
    except Stopped:
        return None


def load_static(engine: Engine, paths: Iterable[str]) -> None:
    for path in paths:
        try:
            report = engine.load(path)
            LOG.info("loaded %s as epoch %d", path, report.epoch)
        except TriegsError as error:
            fail(f"error: {error}")


def choose_epochs(
    request: Request, engine: Engine, options: Options, source: Source
) -> tuple[Epochs, When | int]:
    """How epochs are cut, and after which of them answers are written."""
    every = read_every(request.every)
    # A reader gives ticks to events that have no times of their own.
    has_ticks = bool(source.position.get("tick"))
    if every is None:
        places = set(find_places(request.output or ""))
        is_one = options.format in SINGLE and not places & {"epoch", "time"}
        is_plain = has_ticks and request.batch is None and not request.follow
        every = When.END if is_one or is_plain else When.EPOCH
    if every is When.SLIDE:
        wrong("there is no window, so no slide; --window gives one", "--every")
    if request.batch is not None:
        return AppliedEpochs(engine, request.batch, strict=request.strict), every
    if every is When.END or (has_ticks and request.follow and request.every is None):
        return WholeBatches(engine, strict=request.strict), every
    return AppliedEpochs(engine, strict=request.strict), every


def read_every(text: str | None) -> When | int | None:
    if text is None:
        return None
    if text in list(When):
        return When(text)
    raise typer.BadParameter("not yet", param_hint="--every")


# The end


class InputSize:
    """How much of an input was read, between 0 and 1; None where that is not known."""

    def __init__(self, paths: Iterable[str], source: Source) -> None:
        files = [
            file
            for path in map(Path, paths)
            for file in (path.iterdir() if path.is_dir() else [path])
            if file.is_file()
        ]
        self._sizes = {str(file): file.stat().st_size for file in files}
        self._total = sum(self._sizes.values())
        self._source = source

    def __call__(self) -> float | None:
        files = self._source.report.files
        offset = self._source.position.get("place", {}).get("offset")
        if offset is None or not self._total or files[-1].endswith((".gz", ".zst")):
            return None
        before = sum(self._sizes.get(name, 0) for name in files[:-1])
        return float((before + offset) / self._total)


def show_losses(source: Source, refusals: Refusals, path: str | None) -> None:
    """Say at the end what was not taken, and why."""
    where = f"; see {path}" if path else "; --quarantine FILE keeps them"
    set_aside = source.report.quarantined
    for count, what, reasons in (
        (sum(set_aside.values()), "malformed and set aside", set_aside),
        (refusals.total, "refused", refusals.reasons),
    ):
        if count:
            most = ", ".join(f"{reason} {number:,}" for reason, number in reasons.most_common(3))
            verb = "was" if count == 1 else "were"
            noun = "record" if count == 1 else "records"
            sys.stderr.write(f"{count:,} {noun} {verb} {what} ({most}){where}\n")


def show_statistics(statistics: Statistics, engine: Engine, source: Source) -> None:
    quarantined = sum(source.report.quarantined.values())
    lines = describe(statistics, engine.metrics(), quarantined)
    width = max(len(name) for name, _ in lines)
    sys.stderr.write("".join(f"{name:{width}}  {value}\n" for name, value in lines))


def finish(request: Request, source: Source, reporter: Reporter, stop: Stop) -> int:
    """Say what went wrong, and how the run ended."""
    report = source.report
    code = 0
    for file, reason in report.broken:
        sys.stderr.write(f"error: {file}: {reason}\n")
        code = FAILED
    if reporter.stalled:
        code = FAILED
    if stop.is_asked and not request.follow:
        return stop.exit_code
    return code
