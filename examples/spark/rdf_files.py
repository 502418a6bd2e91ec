"""A directory of N-Triples files as a stream, and a query over all of them that stays exact.

python examples/spark/rdf_files.py FOLDER
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import triegs.spark

EX = "http://example.org/"
QUERY = f"SELECT ?a ?c {{ ?a <{EX}cites> ?b . ?b <{EX}cites> ?c }}"


def write(path: Path, *edges: tuple[str, str]) -> None:
    lines = [f"<{EX}{a}> <{EX}cites> <{EX}{b}> .\n" for a, b in edges]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")


def main(spark: SparkSession, folder: Path) -> None:
    write(folder / "data" / "1.nt", ("p1", "p2"), ("p2", "p3"))
    statements = spark.readStream.format("rdf").load(f"{folder}/data")
    with triegs.spark.start(statements, {"paths": QUERY}, checkpoint=folder / "state") as pipeline:
        pipeline.process_all()
        pipeline.hold("first")
        write(folder / "data" / "2.nt", ("p3", "p4"))
        pipeline.process_all()
        print("now, and when there was one file:")
        spark.table("paths").show(truncate=False)
        spark.table("paths_as_of_first").show(truncate=False)


if __name__ == "__main__":
    main(SparkSession.builder.getOrCreate(), Path(sys.argv[1]))
