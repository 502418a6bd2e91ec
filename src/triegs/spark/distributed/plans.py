"""The plan that a checkpoint was made with, and how one with other parts follows it."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from triegs.compiler.layout import Layout
from triegs.durable.files import UNFINISHED, DiskFiles, write_safely
from triegs.errors import StateError
from triegs.spark.distributed.hosting import ABOUT, PIECES
from triegs.spark.distributed.job import Job
from triegs.spark.distributed.rescaling import SEED_SCHEMA, make_dealer
from triegs.spark.distributed.seeding import read_static, write_seed
from triegs.spark.distributed.slots import find_slots
from triegs.spark.failures import explain

messages = logging.getLogger("triegs.spark")
SPARK, PLAN, SEEDS = "spark", "distributed.json", "seeds"
SHUFFLE = "spark.sql.shuffle.partitions"


class Plan(NamedTuple):
    """The job, and those before it with the last batch of each."""

    job: Job
    past: tuple[tuple[int, Job], ...]

    def find_job(self, batch: int) -> Job:
        """The job that a batch was of."""
        for last, job in self.past:
            if batch <= last:
                return job
        return self.job


def keep_plan(home: Path, job: Job, session: Any, static: Any = None) -> Plan:
    """The plan of a checkpoint: a new one gets this, another number of parts is another generation
    of the same, and what else differs is refused. The static graph is for a new one.
    """
    path = home / PLAN
    told = describe(job)
    if not path.exists():
        fields = {"identity": job.identity, "generations": [], **told}
        begin(home, job, fields, static)
    fields = json.loads(path.read_text(encoding="utf-8"))
    for name, value in json.loads(json.dumps(told)).items():
        if fields[name] != value:
            raise StateError(
                f"the checkpoint {home} was made with other {name}; give what it was made with, or "
                "start anew with another checkpoint"
            )
    job = job._replace(identity=fields["identity"])
    plan = read_plan(home, job, fields)
    if plan.job.layout.partitions != job.layout.partitions:
        if find_last(home, "offsets") is None:  # there was no batch yet
            begin(home, job, fields, static)
        else:
            follow(home, job, fields, plan, session)
        plan = read_plan(home, job, fields)
    match_tasks(home, plan.job.layout.partitions, session)
    return plan


def begin(home: Path, job: Job, fields: dict[str, Any], static: Any) -> None:
    """Write the plan of a checkpoint that no batch is in."""
    seeds = home / SEEDS / "0"
    if static is not None:
        write_seed(seeds, job.layout, read_static(static))
    elif fields["generations"] and seeds.exists():
        raise StateError(f"{home} has a static graph for other parts; give it once more")
    fields["generations"] = [write_generation(job.layout, 0)]
    write_plan(home / PLAN, fields)


def follow(home: Path, job: Job, fields: dict[str, Any], plan: Plan, session: Any) -> None:
    """Write a plan with other parts behind the last batch."""
    last = find_settled(home, plan.job.layout.partitions)
    if plan.past and plan.past[-1][0] >= last:  # no batch was of these parts: they have nothing
        fields["generations"].pop()
        plan = read_plan(home, job, fields)
    number = len(fields["generations"])
    fields["generations"] += [deal(home, plan.job, job.layout, number, last, session)]
    write_plan(home / PLAN, fields)


def describe(job: Job) -> dict[str, Any]:
    """What must not change from one start to the next."""
    return {
        "queries": {name: dict(source) for name, source in job.queries.items()}, "mode": job.mode,
        "windows": None if job.window is None else str(job.window),
        "event time": str(job.event_time), "stream": job.stream,
    }  # fmt: skip


def write_generation(layout: Layout, number: int, **more: Any) -> dict[str, Any]:
    return {"number": number, "layout": layout.write(), **more}


def write_plan(path: Path, fields: Mapping[str, Any]) -> None:
    content = json.dumps(fields, indent=2).encode()
    write_safely(DiskFiles(), path, [[content]], path.with_suffix(UNFINISHED))


def read_plan(home: Path, job: Job, fields: Mapping[str, Any]) -> Plan:
    jobs: list[Job] = []
    past: list[tuple[int, Job]] = []
    for each in fields["generations"]:
        layout = Layout.read(each["layout"])
        slots = find_slots(layout.partitions, each["number"])
        seeds = home / SEEDS / str(each["number"])
        found = job._replace(layout=layout, slots=slots)
        if jobs or seeds.exists():
            found = found._replace(seeds=str(seeds))
        if jobs:
            after = each["after"]
            past.append((after, jobs[-1]))
            found = found._replace(
                identity=f"{job.identity}-{each['number']}", newest=each["newest"],
                retired=jobs[-1].slots, retired_in=after + 1,
            )  # fmt: skip
        jobs.append(found)
    return Plan(jobs[-1], tuple(past))


def find_settled(home: Path, partitions: int) -> int:
    """The last batch, which must be done if there are to be other parts behind it."""
    last = find_last(home)
    if last is None or find_last(home, "offsets") != last:
        raise StateError(
            f"{home} has a batch that is not done; start with {partitions} parts until it is, and "
            "then with another number"
        )
    return last


def deal(
    home: Path, old: Job, layout: Layout, number: int, last: int, session: Any
) -> dict[str, Any]:
    """Files for the parts of a new layout, from the state after the last batch."""
    messages.info("dealing the state of batch %d to %d parts", last, layout.partitions)
    folder = home / SEEDS / str(number)
    shutil.rmtree(folder, ignore_errors=True)
    pieces = read_pieces(session, home, old, last)
    dealt = pieces.mapInArrow(make_dealer(old, layout), SEED_SCHEMA)
    dealt.write.partitionBy("part").parquet(folder.as_uri())
    about = read_state(session, home, ABOUT, last).selectExpr("max(value.newest)").first()
    # Spark's own change of its tasks is a batch, of the old parts.
    after = last + (count_tasks(home) != layout.partitions)
    return write_generation(layout, number, after=after, newest=about[0])


def match_tasks(home: Path, partitions: int, session: Any) -> None:
    """Have Spark run as many tasks as there are parts, if it ran another number before."""
    known = count_tasks(home)
    if known is None or known == partitions:
        return
    try:
        session._streamingCheckpointManager.repartition((home / SPARK).as_uri(), partitions)
    except Exception as problem:
        told = explain(problem)
        raise StateError(f"Spark keeps its {known} tasks in {home}: {told}") from problem


def count_tasks(home: Path) -> int | None:
    """The number of tasks that Spark has kept its state by; None before the first batch."""
    last = find_last(home, "offsets")
    if last is None:
        return None
    lines = (home / SPARK / "offsets" / str(last)).read_text(encoding="utf-8").splitlines()
    found = json.loads(lines[1]).get("conf", {}).get(SHUFFLE)
    return None if found is None else int(found)


def find_last(home: Path, log: str = "commits") -> int | None:
    """The last batch in a log of Spark's checkpoint."""
    try:
        names = [path.name for path in (home / SPARK / log).iterdir()]
    except FileNotFoundError:
        return None
    return max((int(name) for name in names if name.isdecimal()), default=None)


def read_state(session: Any, home: Path, variable: str, batch: int) -> Any:
    reader = session.read.format("statestore").option("stateVarName", variable)
    return reader.option("batchId", batch).load(str(home / SPARK))


def read_pieces(session: Any, home: Path, job: Job, batch: int) -> Any:
    """What the parts of a job had kept after a batch, each in a task of its own."""
    from pyspark.sql import functions

    key, value = functions.col("user_map_key"), functions.col("user_map_value")
    slot = functions.col("key").getField("slot")
    frame = read_state(session, home, PIECES, batch).where(slot.isin(list(job.slots)))
    found = frame.select(
        slot.alias("slot"), key["file"].alias("file"), key["number"].alias("number"),
        value["data"].alias("data"),
    )  # fmt: skip
    return found.repartition(job.layout.partitions, "slot")
