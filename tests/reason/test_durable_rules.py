"""Rules survive: opened again at every point, an engine has the same closure and future."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from random import Random

import pytest
from tests.durable.play import EX, draw_script, look, make_options, play_all

from triegs import Engine, MemoryLimitReached, StateError, Window

RULES = f"""
    TE(X, {EX("q")}, Z) :- TE(X, {EX("p")}, Y), TE(Y, {EX("p")}, Z).
    TE(Y, {EX("r")}, X) :- TE(X, {EX("q")}, Y).
    seen(X, P) :- TE(X, P, Y).
    TE(X, {EX("p")}, X) :- seen(X, {EX("r")}), TE(X, {EX("q")}, X).
"""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_windowed", [False, True], ids=["plain", "windowed"])
def test_the_same_future_from_every_point(seed, is_windowed, tmp_path):
    random = Random(seed)
    options = {**make_options(random, is_windowed), "rules": RULES}
    script = draw_script(random, 14, is_windowed)
    with Engine(**options) as engine:
        expected = play_all(engine, script)
    whole = tmp_path / "whole"
    with Engine.open(whole, sync="never", **options) as engine:

        def keep(number: int) -> None:
            if random.random() < 0.3:
                engine.checkpoint()
            shutil.copytree(whole, tmp_path / str(number))

        assert play_all(engine, script, keep) == expected
    for number in range(len(script)):
        with Engine.open(tmp_path / str(number), sync="never") as engine:
            assert len(engine.rules) == 4
            assert look(engine) == expected[number][1], number
            assert play_all(engine, script[number + 1 :]) == expected[number + 1 :], number


def test_rules_are_stored_and_others_are_refused(tmp_path):
    text = f"TE(Y, {EX('q')}, X) :- TE(X, {EX('p')}, Y)."
    with Engine.open(tmp_path / "a", rules=text) as engine:
        engine.apply([("+", 1, EX("p"), 2)])
        engine.checkpoint()
    with Engine.open(tmp_path / "a", rules=text) as engine:
        query = engine.register(f"SELECT ?x {{ ?x {EX('q')} ?y }}")
        with query.snapshot() as snapshot:
            assert len(snapshot) == 1
        assert engine.apply([("-", 2, EX("q"), 1)]).refused, "it is derived, not stated"
    with pytest.raises(StateError, match="other rules"):
        Engine.open(tmp_path / "a", rules="rdfs")
    with Engine.open(tmp_path / "a") as engine:  # it was closed, and is as it was
        assert len(engine.rules) == 1


def test_rules_that_do_not_fit_leave_the_directory_free(tmp_path):
    with Engine.open(tmp_path / "a") as engine:
        engine.apply([("+", number, EX("p"), number + 1) for number in range(300)])
    transitive = f"TE(X, {EX('p')}, Z) :- TE(X, {EX('p')}, Y), TE(Y, {EX('p')}, Z)."
    with pytest.raises(MemoryLimitReached):
        Engine.open(tmp_path / "a", rules=transitive, memory_limit="1MB")
    with Engine.open(tmp_path / "a") as engine:
        assert engine.rules == ()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_the_closure_is_that_of_one_run(seed, tmp_path):
    """Each life applies what the log does not have yet, and dies after a random number of calls."""
    random = Random(seed)
    window = Window(40, 5)
    steps = []
    for number in range(40):
        time = 3 * number
        edges = [(EX(random.randrange(4)), EX(random.choice("pr")), EX(random.randrange(4)))]
        edges.append((EX(random.randrange(4)), EX("p"), EX(random.randrange(4))))
        steps.append((time, edges, random.choice("++-"), random.randrange(4)))

    def live(directory, most):
        with Engine.open(directory, rules=RULES, window=window, sync="never") as engine:
            if "all" not in engine.queries:
                engine.register("SELECT ?x ?p ?y { ?x ?p ?y }", "all")
            done = engine.positions.get("done", 0)
            for number in range(done, min(len(steps), done + most)):
                time, edges, sign, part = steps[number]
                engine.apply([(sign, *edges[0])])
                engine.push([(time, *edge) for edge in edges])
                if part == 0:
                    engine.push([(time, *edges[1], "-")])
                engine.note({"done": number + 1})
                engine.advance(time)
                if part == 1:
                    engine.checkpoint()
            with engine.queries["all"].snapshot() as snapshot:
                shown = {tuple(row): row.multiplicity for row in snapshot}
            return engine.positions.get("done", 0), shown, sorted(engine.facts("seen", window))

    _, *expected = live(tmp_path / "one", len(steps))
    assert len(expected[0]) > 3
    directory = tmp_path / "many"
    done, found = 0, list[object]()
    for _ in range(60):
        done, *found = live(directory, 0)
        if done == len(steps):
            break
        child = os.fork()
        if child == 0:
            live(directory, random.randrange(1, 6))
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        random.random()
    assert done == len(steps)
    assert found == expected


def test_a_constant_whose_id_had_another_term_is_defined_again(tmp_path):
    """The log has defined an id, whose term is freed; then a rule takes the id."""
    path = tmp_path / "rules.dlog"
    path.write_text(
        "TE(Y, <u:r>, Z) :- d(Y, W, X, Z). TE(<u:1>, <u:p>, Y) :- b(W, W), TE(Y, <u:r>, Z). "
        "d(Z, X, Z, Z) :- TE(Z, <u:p>, X), b(<u:0>, <u:3>). TE(<u:2>, <u:q>, Y) :- a(Y)."
    )
    with Engine.open(tmp_path / "state", sync="never") as engine:
        every = engine.register("SELECT ?x ?p ?y { ?x ?p ?y }", "all")
        engine.register("SELECT ?x ?y { ?x <u:p> ?y }", "windowed", window=Window(10, 5))
        engine.apply([("-", "<u:3>", "<u:s>", "<u:1>")])
        engine.apply([("+", "<u:0>", "<u:q>", "<u:2>"), ("-", "<u:2>", "<u:q>", "<u:2>")])
        engine.push([(0, "<u:0>", "<u:p>", "<u:0>"), (0, "<u:0>", "<u:q>", "<u:1>")])
        engine.advance(0)
        engine.load_rules(path)
        engine.apply([("+", "<u:0>", "<u:r>", "<u:3>"), ("+", "<u:0>", "<u:s>", "<u:3>")])
        with every.snapshot() as snapshot:
            expected = set(map(tuple, snapshot))
    with Engine.open(tmp_path / "state", sync="never") as engine:
        again = engine.queries["all"]
        with again.snapshot() as snapshot:
            assert set(map(tuple, snapshot)) == expected


@pytest.mark.parametrize("window", [None, Window(40, 5)])
def test_facts_that_rules_state_count_once_after_a_checkpoint(window, tmp_path):
    fact = f"TE({EX('a')}, {EX('p')}, {EX('b')})."
    inverse = f"TE(Y, {EX('p')}, X) :- TE(X, {EX('p')}, Y)."
    with Engine.open(tmp_path, rules=[fact, inverse], window=window) as engine:
        engine.register(f"SELECT ?x {{ ?x {EX('p')} ?y }}", name="ends")
        engine.apply([("+", EX("a"), EX("p"), EX("b")), ("+", EX("a"), EX("p"), EX("b"))])
        engine.checkpoint()
    with Engine.open(tmp_path) as engine:
        for change, count in (("-", 2), ("-", 1), ("+", 1)):
            with engine.queries["ends"].snapshot() as snapshot:
                assert {a.x: a.multiplicity for a in snapshot} == {EX("a"): count, EX("b"): 1}
            engine.apply([(change, EX("a"), EX("p"), EX("b"))])
