"""What a Spark task knows about its micro-batch. Imports little: every Python worker loads it."""

from __future__ import annotations

#: Local properties that Spark sets for the tasks of a micro-batch. The query id is stored in the
#: checkpoint, so it identifies the checkpoint.
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


def find_batch() -> int | None:
    """The number of the micro-batch that the current task belongs to; None outside one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty(BATCH_ID)
    return None if found is None else int(found)


def find_query() -> str:
    """The id of the streaming query that the current task belongs to."""
    from pyspark import TaskContext

    return str(TaskContext.get().getLocalProperty(QUERY_ID))
