"""The first compilation: announced, done in one go, and complete."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from triegs import Engine
from triegs.engine import ahead, warmth
from triegs.engine.exercise import call_everything
from triegs.events import open_input
from triegs.jit.jit import COMPILED

# Compiles, or loads, by the exercise; then runs other work, and prints what that compiled beside.
PROGRAM = """
import json, sys
from io import BytesIO
from itertools import islice
from tempfile import TemporaryDirectory
import pyarrow as pa
from numba.core.dispatcher import Dispatcher
from triegs import Engine, Window
from triegs.cli.example import run_example
from triegs.engine.ahead import WORKERS, compile_now
from triegs.engine.exercise import call_everything
from triegs.events import open_input
from triegs.jit.linking import LinkedFunction
from triegs.workloads import path3, path5_prefix, reply, star5

def list_compiled():
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("triegs.")]
    values = [v for m in modules for v in vars(m).values()]
    values = [v._entry if isinstance(v, LinkedFunction) else v for v in values]
    found = {id(v): v for v in values if isinstance(v, Dispatcher)}
    return {(d.py_func.__name__, str(s)) for d in found.values() for s in d.signatures}

COLUMNS = {"subject": [1, 2], "predicate": ["<a:p>", "<a:p>"], "object": ["<a:a>", "<a:b>"]}
SIZES = {"window": 600, "slide": 50}
call_everything(Engine, open_input, lambda: None)
for kernel in WORKERS:
    compile_now(kernel)
before = list_compiled()
sys.stdout = open("/dev/null", "w")
run_example()
for workload in (path3(8, **SIZES), path5_prefix(**SIZES), reply(**SIZES), star5(**SIZES)):
    with Engine() as engine:
        query = engine.register(workload.query)
        for slide in islice(workload.slides(), 4):
            engine.apply(slide.table)
            with query.snapshot() as snapshot:
                snapshot.to_arrow("python"), snapshot.to_arrow(), snapshot.count()
with Engine(window=Window(5, slide=1)) as engine:
    engine.register("SELECT * { ?x <a:p> ?y . ?y <a:p> ?z }")
    for time in range(20):
        engine.push([(time, time, "<a:p>", time + 1)] * (1 + time % 2))
        engine.advance(time)
with TemporaryDirectory() as home:
    for name, options in (("plain", {}), ("windows", {"window": Window(5, slide=1)})):
        with Engine.open(f"{home}/{name}", **options) as engine:
            engine.register("SELECT * { ?x <a:p> ?y . ?y <a:p> ?z }")
            for time in range(6):
                rows = [("+", f"<a:{time}>", "<a:p>", number) for number in range(1 + time % 2)]
                events = [(time, *row[1:]) for row in rows]
                table = pa.table({"time": pa.array([time, time]), **COLUMNS})
                if options:
                    engine.push(events), engine.push(table), engine.advance(time)
                else:
                    engine.apply(rows), engine.apply(table.drop("time"))
with Engine(workers=2, scheduler="fifo") as engine:
    engine.register("SELECT ?x ?z { ?x <a:p> ?y . ?y <a:p> ?z FILTER(?x != ?z) }")
    for first in (0, 50):
        engine.apply([("+", first + n, "<a:p>", first + n + 1) for n in range(200)])
    engine.apply([("-", n, "<a:p>", n + 1) for n in range(50)])
    engine._store.check()
ROW = {"subject": "<a:a>", "predicate": "<a:p>", "object": "_:b"}
for rows in (1, 1_000):
    list(open_input(BytesIO(b"\\n".join([json.dumps(ROW).encode()] * 5)), format="jsonl"))
    csv = b"subject,time,predicate,object,op,id\\n" + b"_:a,1,<a:p>,<a:o>,+,5\\n" * rows
    list(open_input(BytesIO(csv), format="csv", batch_rows=300))
    list(open_input(BytesIO(csv.replace(b",", b"\\t")), format="tsv", terms="plain"))
    list(open_input(BytesIO(b"<a:a> <a:p> _:b .\\n" * rows), format="nt"))
print(*sorted(list_compiled() - before), sep="\\n", file=sys.__stdout__)
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(warmth, "CACHE", tmp_path)
    monkeypatch.setattr(warmth, "FOLDERS", [tmp_path])
    monkeypatch.setattr(warmth, "COMPILED", True)
    monkeypatch.setattr(warmth, "_began", [])
    return tmp_path


def test_the_first_process_reports_compilation_and_the_next_does_not(cache, monkeypatch, caplog):
    calls = []

    def exercise(wait):
        calls.append(1)
        warmth.warm_up(exercise)

    with caplog.at_level(logging.WARNING, "triegs"):
        warmth.warm_up(exercise)
        first = [record.getMessage() for record in caplog.records]
        assert first[0] == warmth.START
        assert first[1].startswith("compiled in 0 s")
        monkeypatch.setattr(warmth, "_began", [])  # as in a new process
        warmth.warm_up(exercise)
    assert len(caplog.records) == 2
    assert calls == [1]


def test_what_only_several_workers_need_is_compiled_for_the_first_of_them(
    cache, monkeypatch, caplog
):
    compiled: list[object] = []
    monkeypatch.setattr(ahead, "compile_now", compiled.append)
    for _ in range(2):
        warmth.warm_up_workers()
    assert compiled == list(ahead.WORKERS)
    assert caplog.records[0].getMessage() == warmth.START_WORKERS
    assert len(caplog.records) == 2


def test_what_was_cut_short_is_done_again(cache, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        warmth.warm_up(lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    assert not warmth.is_warm()


def test_without_a_cache_kernels_are_compiled_as_they_are_called(cache, monkeypatch, caplog):
    monkeypatch.setattr(warmth, "CACHE", None)
    monkeypatch.setattr(warmth, "FOLDERS", [])
    warmth.warm_up(lambda _: pytest.fail("this would compile all of it in every process"))
    assert "TRIEGS_CACHE" in caplog.text


def test_what_came_with_the_package_is_not_compiled_again(cache, tmp_path, monkeypatch):
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    monkeypatch.setattr(warmth, "FOLDERS", [shipped, cache])
    assert not warmth.is_warm()
    (shipped / warmth.MARK).touch()
    warmth.warm_up(lambda _: pytest.fail("all of it is there"))


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled here")
def test_nothing_is_compiled_after_the_exercise():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled here")
def test_the_helper_compiles_what_the_engine_calls():
    call_everything(Engine, open_input, lambda: None)
    for kernel in (*ahead.HELPED, *ahead.OWN):
        assert set(ahead.find_types(kernel)) <= set(kernel.signatures), kernel.__name__


@pytest.mark.parametrize("executable", ["", "/nowhere/python3", "/bin/app"])
def test_without_an_interpreter_there_is_no_helper(executable, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable)
    with ahead.helped() as helper:
        assert helper is None


def test_a_helper_that_fails_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(ahead, "OWN", ())
    monkeypatch.setattr(ahead, "count_cores", lambda: 2)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # then there is nothing it could compile
    with ahead.helped() as helper:
        assert helper is not None
        helper.wait()
