"""What leaves the process by pickling, what is copied, and what refuses both."""

from __future__ import annotations

import copy
import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest

import triegs
from triegs import Answer, Change, Engine, NotCopied, Report, Text, TriegsError, Window, errors

P = "<http://ex/p>"
TEXT = f"SELECT ?x ?y {{ ?x {P} ?y }}"
WAYS = {
    "pickle": lambda each: pickle.loads(pickle.dumps(each)),
    "pickle 2": lambda each: pickle.loads(pickle.dumps(each, 2)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def list_errors() -> list[type[TriegsError]]:
    found = [each for _, each in inspect.getmembers(errors, inspect.isclass)]
    return [each for each in found if issubclass(each, TriegsError)]


def make_error(kind: type[TriegsError]) -> TriegsError:
    """One with something in every field."""
    made: dict[str, Any] = {
        "line": 3, "column": 7, "offset": 5, "good_until": 9, "file": Path("/a/b.log"),
        "refused": ((4, "no live event states this"),),
    }  # fmt: skip
    arguments, named = [], {}
    if "__init__" not in vars(kind):
        initial = next(each for each in kind.__mro__ if "__init__" in vars(each))
        if not issubclass(initial, TriegsError):
            return kind("a message", "and more")
    for name, parameter in inspect.signature(kind).parameters.items():
        value = made.get(name, f"the {name}")
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            named[name] = value
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            arguments.append(value)
    return kind(*arguments, **named)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", list_errors(), ids=lambda kind: kind.__name__)
def test_every_error_can_be_sent(kind, way):
    error = make_error(kind)
    error.add_note("a note")
    error.more = ["of a user"]  # type: ignore[attr-defined]
    found: Any = WAYS[way](error)
    assert type(found) is kind
    assert (str(found), repr(found), found.args) == (str(error), repr(error), error.args)
    assert vars(found) == vars(error)


def test_every_error_of_the_package_comes_from_the_base_that_can_be_sent():
    from triegs.outputs import CannotWrite
    from triegs.spark.failures import BatchFailed

    for error in (CannotWrite("a"), BatchFailed("b")):
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("terms", ["ntriples", "python", "ids", "rdflib", "pyoxigraph"])
def test_answers_and_changes_can_be_sent(terms, way):
    with Engine(retain_epochs=3) as engine:
        query = engine.register(TEXT)
        engine.apply([("+", 7, P, Text("a")), ("+", 8, P, "<http://ex/b>")])
        with query.snapshot() as snapshot, query.changes(since=1) as steps:
            rows = [*snapshot.answers(terms), *steps[0].answers(terms)]
        assert {type(row) for row in rows} == {Answer, Change}
        found = WAYS[way](rows)
        assert found == rows
        assert [(row.x, row["y"], len(row)) for row in found] == [(r.x, r[1], 2) for r in rows]


def test_a_row_without_values_is_no_endless_loop():
    row = Answer.__new__(Answer)
    with pytest.raises(AttributeError):
        row.x  # noqa: B018


@pytest.mark.parametrize("way", WAYS)
def test_what_belongs_to_its_process_refuses(way, tmp_path):
    with Engine.open(tmp_path / "state", window=Window(10, 5), retain_epochs=3) as engine:
        query = engine.register(TEXT)
        engine.push([(1, 1, P, 2)])
        engine.advance(to=10)
        with (
            query.snapshot() as snapshot,
            query.changes(since=1) as steps,
            query.subscribe() as subscription,
        ):
            refused: list[object] = [
                engine, query, snapshot, snapshot[0:1], steps, steps[0], subscription,
                query.emit(print), snapshot._version, engine._store, engine._core,
            ]  # fmt: skip
            if way != "copy":  # what leads to them
                refused += [[snapshot], {"engine": engine}]
            for each in refused:
                with pytest.raises(NotCopied, match="cannot be pickled or copied: "):
                    WAYS[way](each)
            with pytest.raises(TypeError, match=r"to_arrow\(\)"):
                WAYS[way](snapshot)
            assert [row.x for row in snapshot.answers("python")] == [1]


@pytest.mark.parametrize("way", WAYS)
def test_reports_can_be_sent(way, tmp_path):
    with Engine.open(tmp_path / "state", sync="always") as engine:
        report = engine.apply([("-", 1, P, 2)])
        found = WAYS[way](report)
        assert (found, found.durable) == (Report(1, report.refused), False)
        assert report.durable
        assert WAYS[way](engine.recovery) == engine.recovery
    with Engine(window=Window(10, 5)) as engine:
        pushed = engine.push([(1, 1, P, 2), (None, 1, P, 2)])
        published = engine.close_stream()
        assert WAYS[way]((pushed, published)) == (pushed, published)
        assert triegs.Published is type(published[0])
