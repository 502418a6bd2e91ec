"""What ``triegs run`` says of records that were not taken: how many and why, the first one, and
what to type instead.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc

from triegs.cli.output import fail
from triegs.cli.run import Request
from triegs.inputs import Source
from triegs.inputs.report import Fault, InputReport
from triegs.reasons import Reason
from triegs.run.driver import StreamBatch
from triegs.run.refusals import Refusal, Refusals
from triegs.sparql.window import Kind, Window

#: Times that would be of 1985 to 2103 if they counted seconds, and are of a few weeks of 1970.
SECONDS = (480_000_000, 4_200_000_000)
MAP_HINT = "--map '{from} :paid {to}' makes triples of other columns, named in braces"


def show_losses(
    request: Request, reports: Collection[InputReport], refusals: Refusals, late: int, taken: int,
    *, may_be_empty: bool = False,
) -> bool:  # fmt: skip
    """Say at the end what was not taken, and why; whether that is everything there was."""
    where = (
        f"; see {request.quarantine}" if request.quarantine else "; --quarantine FILE keeps them"
    )
    set_aside: Counter[str] = Counter()
    for report in reports:
        set_aside += report.quarantined
    faults = [report.first_fault for report in reports if report.first_fault is not None]
    _tell(set_aside.total(), "malformed and set aside", set_aside, where)
    if faults:
        _show_first(*describe_fault(faults[0]), advise_fault(request, faults[0]))
    _tell(refusals.total, "refused", refusals.reasons, where)
    if refusals.first is not None:
        files = [file for report in reports for file in report.files]
        _show_first(*describe_refusal(refusals.first, files), advise_refusal(refusals.first))
    if late:
        _tell(late, "late and dropped", Counter(), where)
        if not taken:
            _show_advice(["--lateness 10s waits so long for events that are late"])
    read = sum(report.read for report in reports)
    if taken or (may_be_empty and not read):
        return False
    if read:
        verb = "was" if read == 1 else "were"
        sys.stderr.write(f"error: nothing was taken: {_count(read)} {verb} read and lost\n")
    else:
        named = ", ".join(file for report in reports for file in report.files) or "the input"
        sys.stderr.write(f"error: there is no record in {named}, at most a header\n")
    return True


def _count(records: int) -> str:
    return "1 record" if records == 1 else f"{records:,} records"


def _tell(count: int, what: str, reasons: Counter[str], where: str) -> None:
    if not count:
        return
    most = ", ".join(f"{reason} {number:,}" for reason, number in reasons.most_common(3))
    shown = f" ({most})" if most else ""
    verb = "was" if count == 1 else "were"
    sys.stderr.write(f"{_count(count)} {verb} {what}{shown}{where}\n")


def _show_first(place: str, record: str, reason: str, advice: list[str]) -> None:
    """The first record that was lost; its text may hold anything, so it stays on one line."""
    shown = record.encode("unicode_escape").decode() if not record.isprintable() else record
    sys.stderr.write(f"  the first, {place}: {shown}\n    {reason}\n")
    _show_advice(advice)


def _show_advice(advice: list[str]) -> None:
    sys.stderr.write("".join(f"  try: {line}\n" for line in advice))


def describe_fault(fault: Fault) -> tuple[str, str, str]:
    return f"{fault.file}, line {fault.line}", fault.record, fault.reason


def describe_refusal(refusal: Refusal, files: list[str]) -> tuple[str, str, str]:
    place = f"in {files[0]}" if len(set(files)) == 1 else "an event"
    time = "" if refusal.time is None else f" at {show_time(refusal.time)}"
    return f"{place}{time}", refusal.record, refusal.reason


def advise_fault(request: Request, fault: Fault) -> list[str]:
    """What to type for records like this one."""
    kind = fault.reason.kind
    if kind is Reason.BAD_TERM and request.terms == "ntriples":
        return ["--terms plain reads cells as plain names, numbers and texts", MAP_HINT]
    if kind is Reason.BAD_TERM:
        return ["--terms ntriples, if cells are written as in N-Triples: <http://ex/a>"]
    if kind in (Reason.BAD_TIME, Reason.NO_TIME):
        if fault.file.partition(".")[2].startswith(("nq", "trig")):
            return ["--graph-time IRI names the property that tells the time of a graph"]
        return [
            "--columns time=NAME, if another column has the times",
            "--time-unit s (or us, ns), if times do not count milliseconds",
        ]
    if kind is Reason.BAD_OP:
        return ["--columns op=NAME, if another column has the signs + and -"]
    if kind in (Reason.NO_SUBJECT, Reason.NO_PREDICATE, Reason.NO_OBJECT):
        name = kind.removeprefix("no ")
        return [f"--columns {name}=NAME, if another column has it", MAP_HINT]
    if kind is Reason.BAD_LINE:
        return ["--input-format csv, tsv or jsonl, if the name of the file does not tell it"]
    return []


def advise_refusal(refusal: Refusal) -> list[str]:
    kind = refusal.reason.kind
    if kind is Reason.TOO_EARLY:
        return ["--max-ahead 30d (or more), if there are such gaps between events"]
    if kind is Reason.NO_EVENT:
        return ["--columns op=NAME, if another column has the signs + and -"]
    if kind is Reason.LATE:
        return ["--lateness 10s waits so long for events that are late"]
    return []


def advise_columns(columns: tuple[str, ...]) -> list[str]:
    """What to type for a table without columns subject, predicate and object."""
    if len(columns) < 2:
        return ["--input-format tsv, if cells are separated by tabs", MAP_HINT]
    likely = [name for name in columns if name.lower() not in ("time", "ts", "timestamp", "date")]
    first, second = (likely if len(likely) > 1 else columns)[:2]
    return [
        f"--map '{{{first}}} :{second} {{{second}}}' makes a triple of each row",
        f"--columns subject={first},object={second},predicate=NAME, if these are terms already",
    ]


def show_time(time: int) -> str:
    """A time in words, with its number.

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
    arriving: Iterator[StreamBatch], sources: Mapping[str | None, Source], windows: Iterable[Window]
) -> Iterator[StreamBatch]:
    """All that arrives. The first batch of each stream tells whether it has times where windows
    need them, and whether they look as if they counted seconds.
    """
    timed = {each.stream for each in windows if each.kind is Kind.TIME and each.width != 1}
    seen: set[str | None] = set()
    for stream, batch in arriving:
        if batch is not None and batch.num_rows and stream not in seen:
            seen.add(stream)
            source = sources[stream]
            has_times = not source.position.get("tick")  # a reader gives ticks where there are none
            is_needed = stream in timed or (stream is None and bool(timed))
            if is_needed and not has_times:
                refuse_without_times(source)
            if has_times:
                warn_of_seconds(batch)
        yield stream, batch


def refuse_without_times(source: Source) -> None:
    file = source.report.files[-1] if source.report.files else "the input"
    lines = [
        f"error: {file} has no times, and a window goes by them",
        "  try: --columns time=NAME names the column that has them",
        "  try: --graph-time IRI, if in N-Quads or TriG a property tells the time of a graph",
        "  try: no --window, for answers over all records",
    ]
    fail("\n".join(lines))


def warn_of_seconds(batch: object) -> None:
    """A few weeks of 1970 are seldom meant."""
    span = pc.min_max(batch.column("time")).as_py()  # type: ignore[attr-defined]
    if SECONDS[0] <= span["min"] and span["max"] <= SECONDS[1]:
        first, last = show_time(span["min"]), show_time(span["max"])
        sys.stderr.write(
            f"warning: times are from {first} to {last}; if they count seconds, say --time-unit s\n"
        )
