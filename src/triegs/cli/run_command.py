"""Implementation of ``triegs run``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any, TextIO

from triegs.cli.losses import advise_columns, show_losses, watch_times
from triegs.cli.output import FAILED, fail
from triegs.cli.progress import Progress, is_terminal
from triegs.cli.queries import is_file, read_prefixes
from triegs.cli.rules import read_rule_files
from triegs.cli.run import Request
from triegs.cli.run_inputs import InputSize, find_streams, open_sources, read_base, reject
from triegs.cli.run_outputs import check_targets, is_single, open_outputs, read_options
from triegs.cli.run_queries import (
    check_changes,
    choose_kinds,
    describe_head,
    find_windows,
    read_queries,
    read_window,
    register,
)
from triegs.cli.run_state import (
    check_state,
    load_once,
    open_state,
    refuse_new_windows,
    register_again,
)
from triegs.engine import Engine
from triegs.errors import InputError, TriegsError, WindowError
from triegs.events import Source
from triegs.lanes import Lanes
from triegs.mode import Mode
from triegs.names import BASE
from triegs.outputs import Options
from triegs.outputs.texts import find_prefixes
from triegs.reason.model import RuleSet
from triegs.run.bookmarks import TIME, Bookmarks, StreamProgress, find_sizes
from triegs.run.driver import Run, StreamBatch
from triegs.run.epochs import AppliedEpochs, Epochs, Note, WholeBatches, WindowedEpochs
from triegs.run.merge import merge_streams
from triegs.run.refusals import Refusals
from triegs.run.reporter import Reporter, When
from triegs.run.statistics import describe
from triegs.run.stop import Stop, Stopped
from triegs.sparql.window import read_span
from triegs.windows.settings import EventTime, Late

LOG = logging.getLogger("triegs")


def run_queries(request: Request) -> int:
    """Run; returns the exit code."""
    try:
        return _run(request)
    except InputError as error:
        if not error.columns or request.map:  # no hint for users of --map
            raise
        fail("\n  try: ".join([f"error: {error}", *advise_columns(error.columns)]))


def _run(request: Request) -> int:
    prefixes = read_prefixes(request.prefixes or ())
    base = read_base(request, prefixes)
    queries = read_queries(request.queries, prefixes)
    windows = find_windows(queries, read_window(request.window, request.slide))
    has_windows = any(windows.values())
    event_time = read_event_time(request, has_windows)
    kinds = [choose_kinds(each.query, request.emit)[0] for each in queries]
    for each, wanted in zip(queries, kinds, strict=True):
        check_changes(each, wanted)
    options = read_options(request, kinds)
    every = read_every(request.every, has_windows)
    for path in request.static or ():
        if not is_file(path):
            reject(f"{path}: no such file", "--static")
    check_state(request)
    rules = read_rule_files(request.rules or (), prefixes)
    known = prefixes | find_prefixes(query.text for query in queries)
    streams = find_streams(request, (w for each in windows.values() for w in each), known)
    texts = [each.source for each in queries]
    check_targets(request, streams, [*texts, *(request.static or ()), *(request.rules or ())])
    stop = Stop()
    with ExitStack() as stack:
        messages = stack.enter_context(showing_log(request.log_level))
        for each in queries:
            for warning in each.query.warnings:
                LOG.warning("%s, %s", each.source, warning)
        positions: Mapping[str, Any] | None = None
        kept: Engine | None = None
        engine: Engine | Lanes
        if request.state is None:
            engine = open_lanes(request, len(queries), prefixes, event_time, base or BASE, rules)
            stack.callback(engine.close)
        else:
            engine = kept = stack.enter_context(open_state(request, prefixes, event_time, rules))
            refuse_new_windows(kept, has_windows)
            positions = dict(kept.positions)
        late_before = engine.metrics()["windows"]["late"]
        sources = open_sources(
            request, streams, prefixes, known, stop, stack, positions, has_windows
        )
        refusals = stack.enter_context(Refusals(request.quarantine))
        if kept is None:
            selected = [
                register(engine, each, request.emit, windows[each.name]) for each in queries
            ]
        else:
            selected = register_again(kept, queries, request.emit, windows)
        is_watched = request.progress and is_terminal(sys.stderr)
        progress = Progress(is_watched, InputSize(streams, sources))
        messages.hide = progress.hide
        stack.callback(progress.hide)
        if kept is None:
            load_static(engine, request.static or ())
        else:
            load_once(kept, request.static or ())
        heads = [describe_head(each, known, base) for each in selected]
        sizes = find_sizes(positions or {})
        outputs = stack.enter_context(open_outputs(request, options, heads, progress, sizes))
        outputs.flush()  # a reader sees the head of a table before there are rows
        # Until here Ctrl-C terminates the process at once: nothing was written yet.
        stack.enter_context(stop.handling_signals())
        reporter = Reporter(selected, outputs, When.END, is_sorted=positions is not None)
        bookmarks = None
        if kept is not None and positions is not None:
            tracks = {name: StreamProgress(name, each, positions) for name, each in sources.items()}
            bookmarks = Bookmarks(kept, tracks, reporter, refusals)
            kept.pace_checkpoints(bookmarks.is_ready)
        note = None if bookmarks is None else bookmarks.note
        batches = merge_streams(sources if bookmarks is None else bookmarks.tracks)
        read = [window for each in windows.values() for window in each]
        batches = watch_times(batches, sources, read)
        if has_windows:
            epochs: Epochs = WindowedEpochs(
                engine, strict=request.strict, note=note,
                reports_late=positions is None or request.quarantine is not None,
            )  # fmt: skip
            every = every or (When.END if is_single(options, request.output) else When.SLIDE)
        else:
            batches, has_times = peek_first(batches, sources[None], stop)
            every = every or choose_every(request, options, has_times)
            epochs = choose_epochs(request, engine, every, has_times, note)
        reporter.every = every
        run = Run(
            engine, batches, epochs, reporter, stop, progress.update, refusals=refusals,
            progress=bookmarks,
        )  # fmt: skip
        try:
            run.go()
        except BrokenPipeError:
            raise
        except OSError as error:
            fail(f"error: cannot write {request.output or 'the results'}: {error.strerror}")
    late = 0
    if request.quarantine is None:  # else they are among the refusals
        late = engine.metrics()["windows"]["late"] - late_before
    accepted = run.statistics.events - refusals.added - late
    reports = [source.report for source in sources.values()]
    # A resumed or stopped run may have found nothing new.
    may_be_empty = bool(positions) or stop.is_requested
    is_lost = show_losses(request, reports, refusals, late, accepted, may_be_empty=may_be_empty)
    if request.stats:
        show_statistics(run, sources.values(), None if bookmarks is None else bookmarks.events)
    return find_exit_code(
        request, sources.values(), reporter, stop, is_lost and not stop.is_requested
    )


class Messages(logging.StreamHandler[TextIO]):
    """Logs to standard error, hiding the progress line first."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.hide: Callable[[], None] = lambda: None

    def emit(self, record: logging.LogRecord) -> None:
        self.hide()
        super().emit(record)


@contextmanager
def showing_log(level: str) -> Iterator[Messages]:
    """Show log messages of the package from that level."""
    handler = Messages()
    handler.setFormatter(logging.Formatter("%(message)s"))
    before = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(level.upper())
    try:
        yield handler
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(before)


def open_lanes(
    request: Request, queries: int, prefixes: Mapping[str, str], event_time: EventTime, base: str,
    rules: RuleSet,
) -> Engine | Lanes:  # fmt: skip
    """An engine, or lanes if there are several workers and something to divide among them."""
    if rules.rules and request.workers > 1:
        reject("not supported with --rules, which run in one engine", "--workers")
    mode = Mode(request.mode or Mode.MULTIGRAPH)
    options: dict[str, Any] = {"prefixes": prefixes, "event_time": event_time, "base": base}
    count = min(request.workers, queries)
    if count == 1:
        return Engine(mode, rules=rules, **options)
    return Lanes(count, mode, threads=count, **options)


# Time and epochs


def read_event_time(request: Request, has_windows: bool) -> EventTime:
    given = {"--lateness": request.lateness, "--max-ahead": request.max_ahead,
             "--idle-timeout": request.idle_timeout}  # fmt: skip
    for option, value in given.items():
        if value is None:
            continue
        if not has_windows:
            reject("requires a window; see --window", option)
        try:
            read_span(value)
        except WindowError as error:
            reject(str(error), option)
    if request.batch is not None and has_windows:
        reject("not supported with windows, where slides are the epochs", "--batch")
    # A later run that resumes this one may have a quarantine.
    is_dropped = request.quarantine is None and request.state is None
    late = Late.DROP if is_dropped else Late.QUARANTINE
    return EventTime(request.lateness or 0, late, request.max_ahead or "1d", request.idle_timeout)


def read_every(text: str | None, has_windows: bool) -> When | int | None:
    """When to write; a number is a period in milliseconds, None means the default."""
    if text is None:
        return None
    if text == When.SLIDE and not has_windows:
        reject("there is no window to slide; see --window", "--every")
    if text in list(When):
        return When(text)
    try:
        period = read_span(text)
    except WindowError:
        period = 0
    if period < 1:
        reject(f"{text!r} is not slide, epoch, end, or a duration such as 10s", "--every")
    return period


def peek_first(
    batches: Iterator[StreamBatch], source: Source, stop: Stop
) -> tuple[Iterator[StreamBatch], bool]:
    """The batches unchanged, and whether the first one has event times."""
    try:
        with stop.waiting():
            first = next(batches, None)
    except Stopped:
        return iter(()), True
    # Readers assign ticks to events without times.
    has_times = not source.position.get("tick")
    return chain([] if first is None else [first], batches), has_times


def choose_every(request: Request, options: Options, has_times: bool) -> When:
    if is_single(options, request.output):
        return When.END
    is_bulk = not has_times and request.batch is None and not request.follow
    return When.END if is_bulk else When.EPOCH


def choose_epochs(
    request: Request, engine: Engine | Lanes, every: When | int, has_times: bool, note: Note | None
) -> Epochs:
    is_default = request.every is None
    is_bulk = every is When.END or (is_default and not has_times)
    make = WholeBatches if is_bulk and request.batch is None else AppliedEpochs
    time = engine.positions.get(TIME) if isinstance(engine, Engine) else None
    return make(engine, request.batch, strict=request.strict, note=note, time=time)


def load_static(engine: Engine | Lanes, paths: Iterable[str]) -> None:
    for path in paths:
        try:
            report = engine.load(path)
        except TriegsError as error:
            fail(f"error: {error}")
        LOG.info("loaded %s as epoch %d", path, report.epoch)


# The end


def show_statistics(run: Run, sources: Iterable[Source], events: int | None) -> None:
    """Print statistics; `events` is the total of all runs with the same state."""
    quarantined = sum(sum(source.report.quarantined.values()) for source in sources)
    lines = describe(run.statistics, run.engine.metrics(), quarantined, run.refusals.total)
    if events is not None:
        lines.insert(1, ("events in all runs", f"{events:,}"))
    width = max(len(name) for name, _ in lines)
    sys.stderr.write("".join(f"{name:{width}}  {value}\n" for name, value in lines))


def find_exit_code(
    request: Request, sources: Iterable[Source], reporter: Reporter, stop: Stop, is_failed: bool
) -> int:
    """Report failures and the end of the run; `is_failed` if no event was accepted."""
    broken = [each for source in sources for each in source.report.broken]
    for file, reason in broken:
        sys.stderr.write(f"error: {file}: {reason}\n")
    if stop.is_requested and not request.follow:
        sys.stderr.write("stopped before the end of the input\n")
    if broken or reporter.stalled or is_failed:
        return FAILED
    return 0 if request.follow else stop.exit_code
