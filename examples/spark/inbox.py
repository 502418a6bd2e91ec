"""Spark writes events to the inbox of an engine that another process has open.

python examples/spark/inbox.py FOLDER
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import triegs

EX = "http://example.org/"


def main(spark: SparkSession, folder: Path) -> None:
    schema = "subject string, predicate string, object string"
    rows = [(f"<{EX}{n}>", f"<{EX}next>", f"<{EX}{n + 1}>") for n in range(4)]
    spark.createDataFrame(rows, schema).coalesce(1).write.mode("append").parquet(f"{folder}/events")
    events = spark.readStream.schema(schema).parquet(f"{folder}/events")
    writer = events.writeStream.format("triegs").option("checkpointLocation", f"{folder}/spark")
    writer.trigger(availableNow=True).start(f"{folder}/engine").awaitTermination()

    # As the process would that owns the directory.
    with triegs.Engine.open(folder / "engine") as engine:
        query = engine.register(f"SELECT ?a ?c {{ ?a <{EX}next> ?b . ?b <{EX}next> ?c }}")
        for batch in engine.take_inbox():
            print(batch.source, batch.number, batch.outcome)
        with query.snapshot() as snapshot:
            print(*snapshot, sep="\n")


if __name__ == "__main__":
    main(SparkSession.builder.getOrCreate(), Path(sys.argv[1]))
