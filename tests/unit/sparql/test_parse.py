"""Texts in the supported fragment, and the model of each."""

from __future__ import annotations

import pytest

from triegs.errors import UnsupportedQuery
from triegs.sparql import parse
from triegs.sparql.expressions import UNBOUND
from triegs.sparql.model import (
    Aggregate,
    Atom,
    Call,
    Column,
    Direction,
    Duplicates,
    Form,
    Grouping,
    OrderKey,
    Query,
    Values,
)
from triegs.testing.reference import solutions

PREFIXES = {"": "http://ex/", "xsd": "http://www.w3.org/2001/XMLSchema#"}
INTEGER = "^^<http://www.w3.org/2001/XMLSchema#integer>"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
P, Q = "<http://ex/p>", "<http://ex/q>"


def compiled(text: str) -> Query:
    return parse(text, PREFIXES)


def objects(text: str) -> list[str]:
    """The objects of ``?s :p …``."""
    return [atom.object for atom in compiled(f"SELECT * {{ ?s :p {text} }}").atoms]


def filters(text: str, pattern: str = "?x :p ?y") -> tuple[object, ...]:
    return compiled(f"SELECT * {{ {pattern} FILTER({text}) }}").filters


def test_running_example() -> None:
    text = """SELECT ?x ?y ?v ?z ?w WHERE {
        ?v :hasCreator ?x . ?z :hasCreator ?y . ?v :hasReply ?z . ?z :likedBy ?w }"""
    query = compiled(text)
    assert query.form is Form.SELECT
    assert query.head == ("?x", "?y", "?v", "?z", "?w")
    assert query.atoms[2] == Atom("?v", "<http://ex/hasReply>", "?z")
    assert query.text == text
    assert query.grouping is None


@pytest.mark.parametrize(
    ("written", "term"),
    [
        ("01", f'"01"{INTEGER}'),
        ("+5", f'"+5"{INTEGER}'),
        ('"01"^^xsd:integer', f'"01"{INTEGER}'),
        ("1e0", '"1e0"^^<http://www.w3.org/2001/XMLSchema#double>'),
        (".5", '".5"^^<http://www.w3.org/2001/XMLSchema#decimal>'),
        ("TRUE", '"true"^^<http://www.w3.org/2001/XMLSchema#boolean>'),
        ("'a'^^xsd:string", '"a"'),
        ("'a'@EN-gb", '"a"@en-gb'),
        ("'''a\n\"b'''", '"a\\n\\"b"'),
        ('"""a""b"""', '"a\\"\\"b"'),
        (r"'\t\u00e9\\'", '"\\té\\\\"'),
        (r"'\u0022\\u0041'", '"\\"\\\\u0041"'),
        ("'\x00'", '"\\u0000"'),
        (r":a\,b", "<http://ex/a,b>"),
        (":%41.b", "<http://ex/%41.b>"),
        (":a:b", "<http://ex/a:b>"),
        (r"<http://ex/\u00e9>", "<http://ex/é>"),
        ("<relative>", "<relative>"),
        ("()", f"<{RDF}nil>"),
        ("_:b", "?_:b"),
        ("[]", "?_:anon1"),
        ("$o", "?o"),
    ],
)
def test_term(written: str, term: str) -> None:
    assert objects(written) == [term]


def test_signs_belong_to_numbers_in_lists() -> None:
    assert objects("1 , -2,+3") == [f'"1"{INTEGER}', f'"-2"{INTEGER}', f'"+3"{INTEGER}']


def test_base_and_prefix_in_order() -> None:
    query = parse("""BASE <http://a/b/> PREFIX p: <c#> BASE <http://z/>
                     SELECT * { <x> p:d <../y> }""")
    assert query.atoms == (Atom("<http://z/x>", "<http://a/b/c#d>", "<http://z/y>"),)


def test_own_prefix_wins_over_given_one() -> None:
    query = parse("PREFIX : <http://own/> SELECT * { ?s :p ?o }", PREFIXES)
    assert query.atoms[0].predicate == "<http://own/p>"
    assert PREFIXES[""] == "http://ex/"


def test_repeated_atom_stays_twice() -> None:
    assert len(compiled("SELECT * { ?x :p ?y . ?x :p ?y }").atoms) == 2


def test_select_star_is_in_order_of_appearance_without_blank_nodes() -> None:
    query = compiled(
        "SELECT * { ?z :p [ :q ?b ; ?a _:x ] . { ?c :p ?z } VALUES ?0 { 1 } } VALUES ?late { 2 }"
    )
    assert query.head == ("?z", "?b", "?a", "?c", "?0", "?late")


def test_head_variable_absent_from_body() -> None:
    query = compiled("SELECT ?nowhere ?x ?x { ?x :p ?y }")
    assert query.head == ("?nowhere", "?x")
    assert query.free == ("?x",)


def test_empty_pattern() -> None:
    assert compiled("SELECT * {}") == Query(Form.SELECT, (), ())
    assert compiled("ASK {}").form is Form.ASK


def test_blank_node_property_lists_and_collections() -> None:
    query = compiled("SELECT * { [ :p ?x ] :q (1 [ :p 2 ]) . [ :q ?y ] . (3) }")
    first, rest, nil = (f"<{RDF}{name}>" for name in ("first", "rest", "nil"))
    assert len(query.atoms) == 10
    graph = [
        ("_:a", P, "<x>"), ("_:a", Q, "_:l1"),
        ("_:l1", first, f'"1"{INTEGER}'), ("_:l1", rest, "_:l2"),
        ("_:l2", first, "_:b"), ("_:l2", rest, nil), ("_:b", P, f'"2"{INTEGER}'),
        ("_:c", Q, "<y>"), ("_:l3", first, f'"3"{INTEGER}'), ("_:l3", rest, nil),
    ]  # fmt: skip
    found = solutions(query, graph)
    assert found == {("<x>", "<y>"): 1, ("<x>", "_:l1"): 1}
    assert solutions(query, graph[:6] + graph[7:]) == {}


def test_fresh_names_avoid_labels_of_the_text() -> None:
    query = compiled("SELECT * { [] :p/:q _:path1 . _:anon1 :p ?x }")
    assert query.atoms[0] == Atom("?_:anon2", P, "?_:path2")


def test_paths() -> None:
    query = compiled("SELECT * { ?x ^:p/(:q/^(:p/:q)) ?y }")
    assert query.atoms == (
        Atom("?_:path1", P, "?x"),
        Atom("?_:path1", Q, "?_:path2"),
        Atom("?y", P, "?_:path3"),
        Atom("?_:path3", Q, "?_:path2"),
    )


def test_same_path_for_each_object_has_its_own_variables() -> None:
    query = compiled("SELECT * { ?x :p/:q ?y, ?z }")
    assert len({term for atom in query.atoms for term in atom.variables}) == 5


def test_nested_groups_flatten() -> None:
    query = compiled("SELECT * { { ?x :p ?y } { { ?y :q ?z } . VALUES ?z { 1 1 } } }")
    assert query.atoms == (Atom("?x", P, "?y"), Atom("?y", Q, "?z"))
    assert query.values == (Values(("?z",), ((f'"1"{INTEGER}',),) * 2),)


def test_filter_splits_into_conjuncts() -> None:
    found = filters("?x = 1 && (?y = 2 && (?x = ?y || ?y > 3))")
    assert found == (
        Call("=", ("?x", f'"1"{INTEGER}')),
        Call("=", ("?y", f'"2"{INTEGER}')),
        Call("||", (Call("=", ("?x", "?y")), Call(">", ("?y", f'"3"{INTEGER}')))),
    )


def test_connective_chains_are_flat() -> None:
    (found,) = filters(" || ".join(["?x"] * 5000))
    assert isinstance(found, Call)
    assert len(found.arguments) == 5000


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("?x -1", Call("-", ("?x", f'"1"{INTEGER}'))),
        ("?x -1*2", Call("-", ("?x", Call("*", (f'"1"{INTEGER}', f'"2"{INTEGER}'))))),
        ("1-1", Call("-", (f'"1"{INTEGER}', f'"1"{INTEGER}'))),
        ("?x * -1", Call("*", ("?x", f'"-1"{INTEGER}'))),
        ("- ?x", Call("-", ("?x",))),
        ("?x - ?y - ?x", Call("-", (Call("-", ("?x", "?y")), "?x"))),
        ("!?x", Call("!", ("?x",))),
        ("?x IN (?y, 1)", Call("IN", ("?x", "?y", f'"1"{INTEGER}'))),
        ("?x NOT IN ()", Call("NOT IN", ("?x",))),
        ("isuri(?x)", Call("ISIRI", ("?x",))),
        ("?x<?y", Call("<", ("?x", "?y"))),
        ("?x<?y||?y>?x", Call("||", (Call("<", ("?x", "?y")), Call(">", ("?y", "?x"))))),
        ("?x<=?y||?y>?x", Call("||", (Call("<=", ("?x", "?y")), Call(">", ("?y", "?x"))))),
        ("regex(str(?x), 'a')", Call("REGEX", (Call("STR", ("?x",)), '"a"'))),
    ],
)
def test_expression(text: str, tree: Call) -> None:
    assert filters(text) == (tree,)


def test_filter_sees_its_group_only() -> None:
    query = compiled("SELECT * { ?x :p ?y { ?z :q ?w FILTER(?z = ?x && BOUND(?y)) } }")
    assert query.filters == (Call("=", ("?z", UNBOUND)), Call("BOUND", (UNBOUND,)))


def test_filter_sees_the_groups_inside_its_own_and_later_patterns() -> None:
    query = compiled("SELECT * { FILTER(?x = ?y) ?x :p ?z { ?y :q ?w } }")
    assert query.filters == (Call("=", ("?x", "?y")),)


def test_filter_does_not_see_trailing_values() -> None:
    query = compiled("SELECT * { ?x :p ?y FILTER(?z = 1) } VALUES ?z { 1 }")
    assert query.filters == (Call("=", (UNBOUND, f'"1"{INTEGER}')),)


def test_slices_and_duplicates() -> None:
    query = compiled("SELECT DISTINCT ?x { ?x :p ?y } OFFSET 5 LIMIT 10")
    assert (query.duplicates, query.limit, query.offset) == (Duplicates.DISTINCT, 10, 5)
    assert compiled("SELECT REDUCED ?x { }").duplicates is Duplicates.REDUCED


def test_values_without_variables() -> None:
    assert compiled("SELECT * { VALUES () { () () } }").values == (Values((), ((), ())),)
    assert compiled("SELECT * { VALUES ?x { } }").values == (Values(("?x",), ()),)


def test_order() -> None:
    query = compiled("SELECT ?x ?y { ?x :p ?y } ORDER BY DESC(?y) ?x ASC(?x) STR(?y) LIMIT 1")
    assert query.order == (
        OrderKey("?y", Direction.DESCENDING), OrderKey("?x"), OrderKey("?x"),
        OrderKey(Call("STR", ("?y",))),
    )  # fmt: skip
    assert compiled("ASK { ?x :p ?y } ORDER BY ?x").order == ()


def test_order_by_an_unbound_variable_is_a_warning() -> None:
    query = compiled("SELECT ?x { ?x :p ?y } ORDER BY ?xx")
    assert query.order == (OrderKey(UNBOUND),)
    assert "ORDER BY uses ?xx, which is not bound; did you mean ?x?" in query.warnings[0]


def test_order_of_groups() -> None:
    query = compiled("""SELECT ?x (SUM(?y) AS ?s) { ?x :p ?y } GROUP BY ?x
        ORDER BY DESC(?s) SUM(?y) (?s * 2) DESC(COUNT(*)) (?s + COUNT(*)) COUNT(*)""")
    total, count = Aggregate("SUM", "?y"), Aggregate("COUNT", None)
    assert query.head == ("?x", "?s")
    assert query.hidden == ("?_:order1", "?_:order2")
    assert query.grouping is not None
    assert query.grouping.columns[2:] == (
        Column("?_:order1", count), Column("?_:order2", Call("+", (total, count))),
    )  # fmt: skip
    assert query.order == (
        OrderKey("?s", Direction.DESCENDING), OrderKey("?s"),
        OrderKey(Call("*", ("?s", f'"2"{INTEGER}'))),
        OrderKey("?_:order1", Direction.DESCENDING), OrderKey("?_:order2"), OrderKey("?_:order1"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("SELECT ?x { ?x :p ?y } ORDER BY ?x (?x + ?y)", "?y)"),
        ("SELECT (COUNT(*) AS ?n) { ?x :p ?y } GROUP BY ?x ORDER BY ?n ?x", "?x"),
        ("SELECT (COUNT(*) AS ?n) { ?x :p ?y } GROUP BY ?x ORDER BY DESC(SUM(?y))", "DESC"),
    ],
)
def test_order_by_what_is_not_selected_is_refused(text: str, at: str) -> None:
    with pytest.raises(UnsupportedQuery) as caught:
        compiled(text)
    assert caught.value.construct == "unselected ORDER BY"
    column = caught.value.column
    assert column is not None
    assert caught.value.line == 1
    assert text[column - 1 :].startswith(at)


def test_grouping() -> None:
    query = compiled("""SELECT ?x (SUM(?y) / COUNT(*) AS ?mean) (COUNT(DISTINCT ?y) AS ?n)
        { ?x :p ?y } GROUP BY ?x HAVING (MAX(?y) > 3 && ?x != 1) (MIN(?y) < 2)""")
    three, one, two = (f'"{n}"{INTEGER}' for n in (3, 1, 2))
    assert query.grouping == Grouping(
        (Column("?x", "?x"),),
        (
            Column("?x", "?x"),
            Column("?mean", Call("/", (Aggregate("SUM", "?y"), Aggregate("COUNT", None)))),
            Column("?n", Aggregate("COUNT", "?y", Duplicates.DISTINCT)),
        ),
        (
            Call(">", (Aggregate("MAX", "?y"), three)),
            Call("!=", ("?x", one)),
            Call("<", (Aggregate("MIN", "?y"), two)),
        ),
    )
    assert query.head == ("?x", "?mean", "?n")
    assert query.free == ("?x", "?y")


def test_computed_keys() -> None:
    query = compiled("""SELECT ?s (MIN(?s) AS ?m) { ?x :p ?y }
                        GROUP BY (STR(?x) AS ?s) ISIRI(?y) (?y + 1)""")
    assert query.grouping is not None
    text = Call("STR", ("?x",))
    assert query.grouping.keys == (
        Column("?s", text),
        Column("?_:key1", Call("ISIRI", ("?y",))),
        Column("?_:key2", Call("+", ("?y", f'"1"{INTEGER}'))),
    )
    assert query.grouping.columns == (Column("?s", "?s"), Column("?m", Aggregate("MIN", text)))


def test_unbound_key() -> None:
    query = compiled("SELECT ?gone { ?x :p ?y } GROUP BY ?gone")
    assert query.grouping is not None
    assert query.grouping.keys == (Column("?gone", UNBOUND),)


def test_having_without_grouping_is_a_filter() -> None:
    query = compiled("SELECT ?x { ?x :p ?y } HAVING (?y > 1)")
    assert query.grouping is None
    assert query.filters == (Call(">", ("?y", f'"1"{INTEGER}')),)


def test_trailing_values_on_keys_join_before_the_grouping() -> None:
    query = compiled("SELECT ?x (COUNT(*) AS ?n) { ?x :p ?y } GROUP BY ?x VALUES ?x { 1 2 }")
    assert query.values[0].variables == ("?x",)


@pytest.mark.parametrize("atoms", [100, 300])
@pytest.mark.parametrize(
    "pattern",
    [
        lambda n: " . ".join(f"?x{i} :p{i} ?x{i + 1}" for i in range(n)),
        lambda n: "?x " + " ; ".join(f":p{i} ?x{i}" for i in range(n)),
        lambda n: "?x :p " + ", ".join(f"?x{i}" for i in range(n)),
        lambda n: "?x " + "/".join(f":p{i}" for i in range(n)) + " ?y",
        lambda n: " ".join(f"{{ ?x :p{i} ?x{i} }}" for i in range(n)),
    ],
    ids=["path", "star ;", "star ,", "sequence /", "groups"],
)
def test_large_patterns(atoms: int, pattern) -> None:
    query = compiled(f"SELECT * {{ {pattern(atoms)} }}")
    assert len(query.atoms) == atoms
