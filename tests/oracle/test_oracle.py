"""The oracle itself, against an independent engine (pyoxigraph) and by small windows."""

from __future__ import annotations

from collections import Counter

import pyoxigraph as ox
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from triegs.testing import oracle
from triegs.testing.oracle_terms import term
from triegs.testing.strategies import patterns, updates
from triegs.testing.tables import read_answers, read_events, read_updates


def oxigraph_answers(text, counts):
    """The answers of pyoxigraph, a set of triples being what RDF mode sees."""
    store = ox.Store()
    data = "".join(f"{' '.join(triple)} .\n" for triple in counts)
    store.load(data.encode(), format=ox.RdfFormat.N_TRIPLES)
    result = store.query(text)
    if isinstance(result, ox.QueryBoolean):
        return {(): 1} if bool(result) else {}
    assert isinstance(result, ox.QuerySolutions)
    names = [v.value for v in result.variables]
    rows = [tuple(None if row[n] is None else str(row[n]) for n in names) for row in result]
    return dict(Counter(rows))


@given(patterns(max_atoms=5), st.lists(updates(nodes=3, labels=2), max_size=12))
def test_rdf_mode_equals_pyoxigraph(pattern, drawn):
    # An order between IRIs is a type error, but pyoxigraph finds each >= itself.
    assume(">=" not in pattern.text and "<=" not in pattern.text)
    counts = oracle.count_assertions([("+", *update[1:]) for update in drawn])[0]
    assert oracle.answers(pattern.text, counts, "rdf") == oxigraph_answers(pattern.text, counts)


@pytest.mark.parametrize(
    "condition", ['STR(?s) != "q"', "ISNUMERIC(?o)", "!ISNUMERIC(?o)", "ISNUMERIC(?s)"]
)
def test_functions_of_all_kinds_of_terms(condition):
    """A blank node has no text, and an ill-typed literal is no number."""
    integer = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    pairs = [
        ("_:b", '"1"'),
        ("<u:a>", f'"x"{integer}'),
        ("<u:c>", f'"1"{integer}'),
        ("<u:d>", "<u:a>"),
    ]
    counts = Counter((subject, "<u:p>", term) for subject, term in pairs)
    text = f"SELECT ?o {{ ?s <u:p> ?o FILTER({condition}) }}"
    assert oracle.answers(text, counts, "rdf") == oxigraph_answers(text, counts)


@given(patterns(max_atoms=3), st.lists(updates(nodes=3, labels=2), max_size=12))
def test_candidates_are_all_matches_in_the_order_of_the_graph(pattern, drawn):
    graph = [(tuple(map(term, update[1:])), n) for n, update in enumerate(drawn)]
    matches = oracle.Matches(graph)
    bindings: list[oracle.Binding] = [{}]
    for atom in oracle.read_query(pattern.text).atoms:
        found: list[oracle.Binding] = []
        for binding in bindings:
            both = [
                [(oracle.unify(binding, zip(atom, triple, strict=True)), n) for triple, n in each]
                for each in (graph, matches.list_candidates(atom, binding))
            ]
            all_found, some_found = ([each for each in those if each[0]] for those in both)
            assert some_found == all_found
            found += [extended for extended, _ in all_found if extended]
        bindings = found or bindings


GRAPH = read_updates("""
    op | subject | predicate | object
    +  | a       | age       | 3
    +  | b       | age       | 5
    +  | b       | age       | 5
    +  | a       | knows     | b
    +  | b       | knows     | a
""")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT ?x { ?x :age ?n FILTER(?n > 3) }", "x|×\nb|2"),
        ("SELECT DISTINCT ?x { ?x :age ?n }", "x|×\na|1\nb|1"),
        ("SELECT ?x ?gone { ?x :age 3 }", "x|gone|×\na|-|1"),
        ("SELECT ?x { ?x :knows/:knows ?x }", "x|×\na|1\nb|1"),
        ("SELECT ?x { ?x ^:knows ?y VALUES ?y { :a :a } }", "x|×\nb|2"),
        ("SELECT (COUNT(*) AS ?n) (SUM(?a) AS ?s) { ?x :age ?a }", "n|s|×\n3|13|1"),
        ("SELECT ?x (MAX(?a) AS ?m) { ?x :age ?a } GROUP BY ?x HAVING(COUNT(*) > 1)",
         "x|m|×\nb|5|1"),
        ("SELECT (COUNT(*) AS ?n) { ?x :nothing ?a }", "n|×\n0|1"),
        ("SELECT ?x (COUNT(*) AS ?n) { ?x :age ?a } GROUP BY ?x VALUES ?x { :b }", "x|n|×\nb|2|1"),
        # An atom written twice counts twice: 2 * 2 for b.
        ("SELECT ?x { ?x :age ?n . ?x :age ?n }", "x|×\na|1\nb|4"),
    ],
)  # fmt: skip
def test_small_cases(text, expected):
    prefixed = f"PREFIX : <http://example.org/> {text}"
    assert oracle.answers(prefixed, GRAPH) == read_answers(expected)


def test_strict_mode_refuses_the_whole_batch():
    batch = read_updates("op|subject|predicate|object\n+|a|p|b\n-|a|p|c")
    assert oracle.count_assertions(batch, strict=True) == (Counter(), [1])
    assert sum(oracle.count_assertions(batch)[0].values()) == 1


EVENTS = read_events("""
    time | op | subject | predicate | object | id
    0    | +  | a       | p         | b      | one
    5    | +  | a       | p         | b      | two
    5    | +  | a       | p         | b      | two
    7    | +  | a       | q         | b      | two
    9    | -  | a       | p         | b      | one
    9    | -  | a       | p         | b      | one
""")


def sizes(moments):
    return {m.time: sum(m.counts.values()) for m in moments}


def test_a_window_holds_what_is_younger_than_its_width():
    plain = [event._replace(id=None) for event in EVENTS[:2]]
    assert sizes(oracle.windowed(plain, width=5, slide=5, until=10)) == {0: 1, 5: 1, 10: 0}
    closed = oracle.windowed(plain, width=5, slide=5, until=15, closed="start")
    assert sizes(closed) == {5: 1, 10: 1, 15: 0}
    assert sizes(oracle.windowed(plain, width=None, slide=5, until=10)) == {0: 1, 5: 2, 10: 2}
    # A slide longer than the width leaves gaps: the event at 5 is never seen.
    assert sizes(oracle.windowed(plain, width=2, slide=10, until=10)) == {0: 1, 10: 0}


def test_identities_and_deletes():
    moments = list(oracle.windowed(EVENTS, width=100, slide=1))
    assert sizes(moments)[5] == 2  # the repeated id counts once
    assert [e.object for e in moments[7].refused] == [EVENTS[3].object]  # same id, other content
    assert sizes(moments)[9] == 1
    assert moments[9].refused == [EVENTS[5]]  # that event is gone already


def test_times_before_zero_and_an_offset_start():
    early = [EVENTS[0]._replace(time=-7)]
    assert sizes(oracle.windowed(early, width=4, slide=5, start=1, until=1)) == {-4: 1, 1: 0}


def test_late_events():
    a, b, c = (EVENTS[0]._replace(time=t) for t in (10, 4, 10))
    assert oracle.split_late([[a], [b]], lateness=3) == ([a], [b])
    assert oracle.split_late([[a], [b]], lateness=6) == ([a], [b])
    assert oracle.split_late([[a], [b]], lateness=7) == ([a, b], [])
    assert oracle.split_late([[a], [c]]) == ([a], [c])
    assert oracle.split_late([[a, b]]) == ([a, b], [])


def test_the_last_n_events():
    assert [sum(m.counts.values()) for m in oracle.last_events(EVENTS[:2], 1)] == [1, 1]
