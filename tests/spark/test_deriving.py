"""Rules on Spark: partitions together have the closure of one engine; the driver keeps rules."""

from __future__ import annotations

import pyarrow as pa
import pytest

from triegs import Engine, workloads
from triegs.errors import BadOption, InputError
from triegs.spark import derive, start
from triegs.spark.deriving import ALL

UNIVERSITY = workloads.get("university")
NAMES = ["subject", "predicate", "object"]


@pytest.fixture(scope="module")
def triples() -> list[tuple]:
    table = pa.Table.from_batches(list(UNIVERSITY.events(900)))
    rows = zip(*(table[name].to_pylist() for name in NAMES), strict=True)
    return [*UNIVERSITY.static, *rows]


@pytest.mark.parametrize("rules", ["rdfs-plus"])
@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_partitions_have_the_closure_of_one_engine(spark, triples, rules, partitions):
    engine = Engine("rdf", rules=rules)
    query = engine.register(ALL)
    engine.apply([("+", *triple) for triple in triples])
    with query.snapshot() as snapshot:
        expected = {tuple(answer) for answer in snapshot}
    frame = spark.get().createDataFrame(triples, NAMES)
    rows = [tuple(row) for row in derive(frame, rules, partitions=partitions).collect()]
    assert len(rows) == len(set(rows))
    assert set(rows) == expected
    assert len(expected) > len(set(triples))


def test_what_cannot_be_derived_is_refused(spark):
    frame = spark.get().createDataFrame([("<a:b>", "<a:p>")], NAMES[:2])
    with pytest.raises(InputError, match="object"):
        derive(frame, "rdfs")
    frame = spark.get().createDataFrame([("<a:b>", "<a:p>", "<a:c>")], NAMES)
    with pytest.raises(BadOption, match="at least 1"):
        derive(frame, "rdfs", partitions=0)


def test_a_pipeline_in_the_driver_keeps_rules(spark, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    session = spark.get()
    frame = session.createDataFrame([("<a:x>", "<a:p>", "<a:y>")], NAMES)
    frame.coalesce(1).write.mode("append").parquet(str(source))
    events = session.readStream.schema("subject string, predicate string, object string").parquet(
        str(source)
    )
    rules = "TE(Y, <a:q>, X) :- TE(X, <a:p>, Y)."
    pipeline = start(
        events, {"back": "SELECT ?x ?y { ?x <a:q> ?y }"}, checkpoint=tmp_path / "state",
        rules=rules, views=False,
    )  # fmt: skip
    pipeline.process_all()
    pipeline.close()
    with Engine.open(tmp_path / "state" / "engine") as engine:
        assert len(engine.rules) == 1
        with engine.queries["back"].snapshot() as snapshot:
            assert [tuple(answer) for answer in snapshot] == [("<a:y>", "<a:x>")]
