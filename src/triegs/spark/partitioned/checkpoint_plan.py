"""The plan in a checkpoint, and its generations: a new one for each number of partitions."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from triegs.durable.files import UNFINISHED, DiskFiles, write_safely
from triegs.errors import StateError
from triegs.partition.layout import Layout
from triegs.spark.failures import explain
from triegs.spark.handles import SPARK
from triegs.spark.partitioned.job import Job
from triegs.spark.partitioned.processor import ABOUT, CHUNKS
from triegs.spark.partitioned.rescaling import SEED_SCHEMA, make_repartitioner
from triegs.spark.partitioned.seeds import PART, read_static, write_seed
from triegs.spark.partitioned.slots import find_slots

messages = logging.getLogger("triegs.spark")
PLAN, SEEDS = "distributed.json", "seeds"
NO_RULES = ""  # checkpoints before rules could be partitioned do not have the field
SHUFFLE = "spark.sql.shuffle.partitions"


class Plan(NamedTuple):
    """The current job, and earlier jobs with the last batch of each."""

    job: Job
    past: tuple[tuple[int, Job], ...]

    def find_job(self, batch: int) -> Job:
        """The job that a batch belongs to."""
        for last, job in self.past:
            if batch <= last:
                return job
        return self.job


def open_plan(home: Path, job: Job, session: Any, static: Any = None) -> Plan:
    """The plan of a checkpoint. A new checkpoint gets this job; a different number of partitions
    adds a generation; any other difference is an error. The static graph is only for a new
    checkpoint.
    """
    path = home / PLAN
    settings = describe(job)
    if not path.exists():
        fields = {"identity": job.identity, "generations": [], **settings}
        write_first(home, job, fields, static)
    fields = json.loads(path.read_text(encoding="utf-8"))
    for name, value in json.loads(json.dumps(settings)).items():
        if fields.get(name, NO_RULES) != value:
            raise StateError(
                f"the checkpoint {home} was made with different {name}; pass the original "
                f"{name}, or start with a new checkpoint"
            )
    job = job._replace(identity=fields["identity"])
    plan = read_plan(home, job, fields)
    if plan.job.layout.partitions != job.layout.partitions:
        if find_last(home, "offsets") is None:  # no batch has run yet
            write_first(home, job, fields, static)
        else:
            add_generation(home, job, fields, plan, session)
        plan = read_plan(home, job, fields)
    match_tasks(home, plan.job.layout.partitions, session)
    return plan


def write_first(home: Path, job: Job, fields: dict[str, Any], static: Any) -> None:
    """Write the plan of a checkpoint without batches."""
    seeds = home / SEEDS / "0"
    if static is not None:
        write_seed(seeds, job.layout, read_static(static))
    elif fields["generations"] and seeds.exists():
        raise StateError(
            f"{home} has a static graph for another number of partitions; pass static again"
        )
    fields["generations"] = [write_generation(job.layout, 0)]
    write_plan(home / PLAN, fields)


def add_generation(home: Path, job: Job, fields: dict[str, Any], plan: Plan, session: Any) -> None:
    """Add a generation with another number of partitions after the last batch."""
    last = find_settled(home, plan.job.layout.partitions)
    if plan.past and plan.past[-1][0] >= last:  # a generation without batches has no state
        fields["generations"].pop()
        plan = read_plan(home, job, fields)
    number = len(fields["generations"])
    fields["generations"] += [repartition_state(home, plan.job, job.layout, number, last, session)]
    write_plan(home / PLAN, fields)


def describe(job: Job) -> dict[str, Any]:
    """What must not change from one start to the next."""
    return {
        "queries": {name: dict(source) for name, source in job.queries.items()}, "mode": job.mode,
        "windows": None if job.window is None else str(job.window),
        "event time": str(job.event_time), "stream": job.stream, "rules": job.rules,
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
    """The last batch, which must be committed before rescaling."""
    last = find_last(home)
    if last is None or find_last(home, "offsets") != last:
        raise StateError(
            f"{home} has an uncommitted batch; run with {partitions} partitions until it is "
            "committed, then rescale"
        )
    return last


def repartition_state(
    home: Path, old: Job, layout: Layout, number: int, last: int, session: Any
) -> dict[str, Any]:
    """Write seed files for a new layout from the state after the last batch."""
    messages.info("repartitioning the state of batch %d to %d partitions", last, layout.partitions)
    folder = home / SEEDS / str(number)
    shutil.rmtree(folder, ignore_errors=True)
    chunks = read_chunks(session, home, old, last)
    moved = chunks.mapInArrow(make_repartitioner(old, layout), SEED_SCHEMA)
    moved.write.partitionBy(PART).parquet(folder.as_uri())
    about = read_state(session, home, ABOUT, last).selectExpr("max(value.newest)").first()
    # Spark's own repartitioning is a batch, of the old generation.
    after = last + (count_tasks(home) != layout.partitions)
    return write_generation(layout, number, after=after, newest=about[0])


def match_tasks(home: Path, partitions: int, session: Any) -> None:
    """Have Spark run one task per partition, if it ran another number before. PySpark has no public
    interface for this yet.
    """
    known = count_tasks(home)
    if known is None or known == partitions:
        return
    try:
        session._streamingCheckpointManager.repartition((home / SPARK).as_uri(), partitions)
    except Exception as problem:
        raise StateError(
            f"Spark cannot repartition {home} from {known} to {partitions} tasks: "
            f"{explain(problem)}"
        ) from problem


def count_tasks(home: Path) -> int | None:
    """The number of tasks that partition Spark's state; None before the first batch."""
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


def read_chunks(session: Any, home: Path, job: Job, batch: int) -> Any:
    """The stored state of a job's partitions after a batch, one partition per task."""
    from pyspark.sql import functions

    key, value = functions.col("user_map_key"), functions.col("user_map_value")
    slot = functions.col("key").getField("slot")
    frame = read_state(session, home, CHUNKS, batch).where(slot.isin(list(job.slots)))
    found = frame.select(
        slot.alias("slot"), key["file"].alias("file"), key["number"].alias("number"),
        value["data"].alias("data"),
    )  # fmt: skip
    return found.repartition(job.layout.partitions, "slot")
