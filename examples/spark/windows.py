"""What friends wrote, over a window of ten seconds: changes as Parquet, and a table.

python examples/spark/windows.py FOLDER
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import triegs
import triegs.spark

EX = "http://example.org/"
QUERY = f"""
    PREFIX : <{EX}>
    SELECT ?who ?friend ?post {{ ?who :knows ?friend . ?friend :wrote ?post }}
"""
EVENTS = [
    (1_000, "+", "Ada", "knows", "Bo"),
    (2_000, "+", "Bo", "wrote", "post1"),
    (6_000, "-", "Ada", "knows", "Bo"),
    (12_000, "+", "Bo", "wrote", "post2"),
    (13_000, "+", "Cy", "knows", "Bo"),
    (21_000, "+", "Dee", "knows", "Cy"),
]


def main(spark: SparkSession, folder: Path) -> None:
    rows = [(time, op, *(f"<{EX}{term}>" for term in terms)) for time, op, *terms in EVENTS]
    schema = "time long, op string, subject string, predicate string, object string"
    spark.createDataFrame(rows, schema).coalesce(1).write.mode("append").parquet(f"{folder}/events")

    events = spark.readStream.schema(schema).parquet(f"{folder}/events")
    with triegs.spark.start(
        events,
        {"posts": QUERY},
        checkpoint=folder / "state",
        window=triegs.Window("10s", slide="5s"),
        sinks={"posts": folder / "changes"},
        trigger={"availableNow": True},
    ) as pipeline:
        pipeline.wait()
        spark.table("posts").show(truncate=False)
    spark.read.parquet(f"{folder}/changes").orderBy("time").show(truncate=False)


if __name__ == "__main__":
    main(SparkSession.builder.getOrCreate(), Path(sys.argv[1]))
