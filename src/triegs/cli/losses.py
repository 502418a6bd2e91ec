"""Reports records that ``triegs run`` did not accept: counts, reasons, the first one, and hints."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.compute as pc

from triegs.cli.output import fail
from triegs.cli.run import Request
from triegs.events import Source
from triegs.events.files import find_format
from triegs.events.mapped import SEPARATED
from triegs.events.report import Fault, InputReport
from triegs.events.source import WITH_GRAPHS
from triegs.reasons import Reason, list_names
from triegs.run.driver import StreamBatch
from triegs.run.refusals import Refusal, Refusals
from triegs.sparql.window import Kind, Window

#: Times from 1985 to 2103 if read as seconds, but a few weeks of 1970 as milliseconds.
SECONDS = (480_000_000, 4_200_000_000)
#: Formats whose records are numbered by row.
WITH_ROWS = ("parquet", "arrow")
TEXT_TABLES = (*SEPARATED, "jsonl")
#: Skipped files that are named.
SHOWN = 5
MAP_HINT = "--map '{from} :paid {to}' to build triples from other columns"


def show_losses(
    request: Request, reports: Collection[InputReport], refusals: Refusals, late: int, taken: int,
    *, may_be_empty: bool = False,
) -> bool:  # fmt: skip
    """Report what was not accepted, and why; returns whether nothing at all was accepted."""
    where = (
        f"; see {request.quarantine}"
        if request.quarantine
        else "; use --quarantine FILE to keep them"
    )
    show_skipped([path for report in reports for path in report.skipped])
    quarantined: Counter[str] = Counter()
    for report in reports:
        quarantined += report.quarantined
    faults = [report.first_fault for report in reports if report.first_fault is not None]
    _report(quarantined.total(), "malformed and skipped", quarantined, where)
    if faults:
        kind = find_format(faults[0].file, request.input_format, None)[0]
        _show_first(*describe_fault(faults[0], kind), advise_fault(request, faults[0], kind))
    _report(refusals.total, "refused", refusals.reasons, where)
    if refusals.first is not None:
        files = [file for report in reports for file in report.files]
        _show_first(*describe_refusal(refusals.first, files), advise_refusal(refusals.first))
    if late:
        _report(late, "late and dropped", Counter(), where)
        if not taken:
            _show_advice(["--lateness 10s to wait for late events"])
    read = sum(report.read for report in reports)
    if taken or (may_be_empty and not read):
        return False
    if read:
        verb = "was" if read == 1 else "were"
        sys.stderr.write(f"error: no event was accepted: {_count(read)} {verb} read and rejected\n")
    else:
        named = ", ".join(file for report in reports for file in report.files) or "the input"
        sys.stderr.write(f"error: no records in {named}\n")
    return True


def show_skipped(paths: Iterable[str]) -> None:
    """Name the entries of directories that are not read, except hidden ones."""
    names = [path for path in paths if not Path(path).name.startswith((".", "_"))]
    if not names:
        return
    what = "1 entry" if len(names) == 1 else f"{len(names):,} entries"
    more = ", …" if len(names) > SHOWN else ""
    shown = list_names(names[:SHOWN])
    sys.stderr.write(f"skipped {what} of unknown format: {shown}{more}\n")


def _count(records: int) -> str:
    return "1 record" if records == 1 else f"{records:,} records"


def _report(count: int, what: str, reasons: Counter[str], where: str) -> None:
    if not count:
        return
    most = ", ".join(f"{reason} {number:,}" for reason, number in reasons.most_common(3))
    shown = f" ({most})" if most else ""
    verb = "was" if count == 1 else "were"
    sys.stderr.write(f"{_count(count)} {verb} {what}{shown}{where}\n")


def _show_first(where: str, record: str, reason: str, advice: list[str]) -> None:
    """Show the first rejected record, escaped to stay on one line."""
    shown = record.encode("unicode_escape").decode() if not record.isprintable() else record
    shown = f": {shown}" if shown else ""
    sys.stderr.write(f"  first: {where}{shown}\n    {reason}\n")
    _show_advice(advice)


def _show_advice(advice: list[str]) -> None:
    sys.stderr.write("".join(f"  try: {line}\n" for line in advice))


def describe_fault(fault: Fault, kind: str) -> tuple[str, str, str]:
    unit = "row" if kind in WITH_ROWS else "line"
    where = f"{fault.file}, {unit} {fault.line}" if fault.line else fault.file
    return where, fault.record, fault.reason


def describe_refusal(refusal: Refusal, files: list[str]) -> tuple[str, str, str]:
    where = f"event of {files[0]}" if len(set(files)) == 1 else "event"
    time = "" if refusal.time is None else f" at {show_time(refusal.time)}"
    return f"{where}{time}", refusal.record, refusal.reason


def advise_fault(request: Request, fault: Fault, file_format: str) -> list[str]:
    """Options to try for records like this one."""
    kind = fault.reason.kind
    if kind is Reason.BAD_TERM and request.terms == "ntriples":
        return ["--terms plain to read cells as plain names, numbers and texts", MAP_HINT]
    if kind is Reason.BAD_TERM:
        return ["--terms ntriples if cells are N-Triples terms such as <http://ex/a>"]
    if kind in (Reason.BAD_TIME, Reason.NO_TIME):
        if file_format in WITH_GRAPHS:
            return ["--graph-time IRI to name the property with the time of a graph"]
        unit = "--time-unit s (or us, ns) if times are not in milliseconds"
        column = "--columns time=NAME if the times are in another column"
        return [column] if request.time_unit else [column, unit]
    if kind is Reason.BAD_OP:
        return ["--columns op=NAME if the signs + and - are in another column"]
    if kind in (Reason.NO_SUBJECT, Reason.NO_PREDICATE, Reason.NO_OBJECT):
        name = kind.removeprefix("no ")
        return [f"--columns {name}=NAME if it is in another column", MAP_HINT]
    if kind is Reason.NOT_UTF8 and file_format in SEPARATED:
        return ["--encoding latin-1, or another one"]
    if kind is Reason.BAD_LINE and file_format in TEXT_TABLES:
        return ["--input-format csv, tsv or jsonl if the file extension is wrong"]
    return []


def advise_refusal(refusal: Refusal) -> list[str]:
    kind = refusal.reason.kind
    if kind is Reason.TOO_EARLY:
        return ["--max-ahead 30d (or more) if such gaps between events are expected"]
    if kind is Reason.NO_EVENT:
        return ["--columns op=NAME if the signs + and - are in another column"]
    if kind is Reason.LATE:
        return ["--lateness 10s to wait for late events"]
    return []


def advise_columns(columns: tuple[str, ...]) -> list[str]:
    """Options to try for a table without the columns subject, predicate and object."""
    if len(columns) < 2:
        return ["--input-format tsv if cells are separated by tabs", MAP_HINT]
    likely = [name for name in columns if name.lower() not in ("time", "ts", "timestamp", "date")]
    first, second = (likely if len(likely) > 1 else columns)[:2]
    return [
        f"--map '{{{first}}} :{second} {{{second}}}' to build a triple from each row",
        f"--columns subject={first},object={second},predicate=NAME if these columns contain terms",
    ]


def show_time(time: int) -> str:
    """A time as ISO 8601 text and number.

    >>> show_time(1_714_550_400_000)
    '2024-05-01T08:00:00+00:00 (1714550400000)'
    """
    try:
        shown = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time)
    except OverflowError:
        return str(time)
    return f"{shown.isoformat()} ({time})"


# Before the run


def watch_times(
    batches: Iterator[StreamBatch], sources: Mapping[str | None, Source], windows: Iterable[Window]
) -> Iterator[StreamBatch]:
    """Pass batches through. Checks in the first batch of each stream that it has times if windows
    need them, and that they do not look like seconds.
    """
    timed = {each.stream for each in windows if each.kind is Kind.TIME and each.width != 1}
    checked: set[str | None] = set()
    for stream, batch in batches:
        if batch is not None and batch.num_rows and stream not in checked:
            checked.add(stream)
            source = sources[stream]
            has_times = not source.position.get("tick")  # readers assign ticks if there are none
            is_needed = stream in timed or (stream is None and bool(timed))
            if is_needed and not has_times:
                refuse_without_times(source)
            if has_times:
                warn_of_seconds(batch)
        yield stream, batch


def refuse_without_times(source: Source) -> None:
    file = source.report.files[-1] if source.report.files else "the input"
    lines = [
        f"error: {file} has no times, which windows require",
        "  try: --columns time=NAME to name the time column",
        "  try: --graph-time IRI to name the time property of graphs in N-Quads or TriG",
        "  try: omit --window for answers over all records",
    ]
    fail("\n".join(lines))


def warn_of_seconds(batch: object) -> None:
    """Warn if all times lie in a few weeks of 1970."""
    span = pc.min_max(batch.column("time")).as_py()  # type: ignore[attr-defined]
    if SECONDS[0] <= span["min"] and span["max"] <= SECONDS[1]:
        first, last = show_time(span["min"]), show_time(span["max"])
        sys.stderr.write(
            f"warning: times range from {first} to {last}; use --time-unit s if they are seconds\n"
        )
