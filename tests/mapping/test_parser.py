"""The text of a mapping: its meaning, and the errors of an invalid one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from triegs import MappingError
from triegs.events import open_input
from triegs.events.mapping import parse_mapping
from triegs.events.mapping.rows import map_rows

XSD = "http://www.w3.org/2001/XMLSchema#"
IRI = "<urn:triegs:{}>".format
ROW = {
    "a": "x y",
    "b": "z",
    "n": "07",
    "t": "2024-05-01 10:00:00",
    "u": "http://ex/é?q=1",
    "e": None,
}


def map_one(text, prefixes=None, **changed):
    """The triples of one row."""
    mapping = parse_mapping(text, prefixes=prefixes)
    cells = {name: pa.array([value], pa.string()) for name, value in (ROW | changed).items()}
    nodes = pa.array(["_:row"])
    found = map_rows(mapping, cells, 1, nodes, np.ones(1, np.bool_))
    columns = [found.columns[name].to_pylist() for name in ("subject", "predicate", "object")]
    return list(zip(*columns, strict=True)), found.problems


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("{a}", IRI("x%20y")),
        ("{ a }", IRI("x%20y")),
        (":{b}", IRI("z")),
        (":pre-{b}.{n}", IRI("pre-z.07")),
        ("ex:{a}", "<http://ex/x%20y>"),
        ("<http://x/{a}/{b}#y>", "<http://x/x%20y/z#y>"),
        ("{u:iri}", "<http://ex/é?q=1>"),
        ("{n:integer}", f'"07"^^<{XSD}integer>'),
        ("{n:decimal}", f'"07"^^<{XSD}decimal>'),
        ('"{n}"^^xsd:decimal', f'"07"^^<{XSD}decimal>'),
        ('"{n}.{n}"^^xsd:decimal', f'"07.07"^^<{XSD}decimal>'),
        ('"{n}"^^<http://ex/t>', '"07"^^<http://ex/t>'),
        ("{n:string}", '"07"'),
        ("{t:dateTime}", f'"2024-05-01T10:00:00"^^<{XSD}dateTime>'),
        ('"say \\"{a}\\" {{{b}}}"@EN', '"say \\"x y\\" {z}"@en'),
        ("'it is {b}'", '"it is z"'),
        ("5", f'"5"^^<{XSD}integer>'),
        ("-1.50", f'"-1.50"^^<{XSD}decimal>'),
        ("1e3", f'"1e3"^^<{XSD}double>'),
        ("true", f'"true"^^<{XSD}boolean>'),
        ('"x"@en', '"x"@en'),
        ("<http://ex/o>", "<http://ex/o>"),
        ("[]", "_:row"),
        ("[ ]", "_:row"),
    ],
)
def test_an_object_is_the_term_that_it_says(text, term):
    triples, problems = map_one(f"{{b}} ex:p {text}", {"ex": "http://ex/"})
    assert (triples, problems) == ([(IRI("z"), "<http://ex/p>", term)], {})


def test_triples_are_written_as_in_turtle():
    text = """# a payment
    [] a :Payment ; :from {a} , {b} ; .
    {a} :{b} 1 . {b} :p 2 ."""
    rdf_type = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    assert map_one(text)[0] == [
        ("_:row", rdf_type, IRI("Payment")),
        ("_:row", IRI("from"), IRI("x%20y")),
        ("_:row", IRI("from"), IRI("z")),
        (IRI("x%20y"), IRI("z"), f'"1"^^<{XSD}integer>'),
        (IRI("z"), IRI("p"), f'"2"^^<{XSD}integer>'),
    ]
    several = map_one(["[] a :Payment ; :from {a} , {b}", "{a} :{b} 1", "{b} :p 2"])
    assert several == map_one(text)


def test_a_null_leaves_out_its_triple_and_a_row_without_triples_is_malformed():
    assert len(map_one("{a} :p {b} ; :q {e}")[0]) == 1
    assert map_one('{a} :p {e} ; :q "{a}{e}"') == (
        [], {0: "no triple: no value in e"}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        ("integer", "1.0"), ("decimal", "1e3"), ("decimal", "1,000"), ("double", "1.0.0"),
        ("boolean", "yes"), ("date", "2024-02-30"), ("date", "01.02.2024"),
        ("dateTime", "2024-05-01T25:00:00"), ("time", "10:61:00"), ("iri", "no iri"),
    ],
)  # fmt: skip
def test_a_cell_that_does_not_match_its_type_is_reported(kind, bad):
    triples, problems = map_one(f"{{a}} :p {{n:{kind}}}", n=bad)
    assert triples == []
    assert problems == {
        0: f"bad cell: n: {bad!r} is not a valid {'IRI' if kind == 'iri' else kind}"
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the mapping is empty"),
        (":a :p :b", "uses no column"),
        ("{a} :p", "line 1, column 7: an object is missing before the end"),
        ("{a}", "line 1, column 4: a predicate is missing before the end"),
        ("{a} . :p {b}", "column 5: a predicate is missing before '.'"),
        ("{a} paid {b}", "column 5: 'paid' is not a term; a name has a colon, :paid"),
        ("{a} :p {b", "column 8: '{b': unbalanced brace"),
        ("{a} :p {}", "column 8: {} names no column"),
        ("{a} :p {b} {n}", "column 12: unexpected '{n}' after a triple; write . ; or ,"),
        ("{a}\n  5 {b}", "line 2, column 3: a predicate must be an IRI, not the literal 5"),
        ("{a} {n:integer} {b}", "column 5: a predicate must be an IRI"),
        ("{a} [] {b}", "column 5: a predicate must be an IRI, not the node of the row"),
        ("{a} ex:p {b}", "column 5: undeclared prefix 'ex:'; known prefixes: rdf:, xsd:"),
        ("{a} <paid> {b}", "has no scheme such as http:; a name under the base is :paid"),
        (
            "{a} <{b}> {b}",
            "column 5: an IRI must start with text; for a cell that is an IRI write {b:iri}",
        ),
        ("{a} :p _:b", "column 8: '_:b': the only blank node is []"),
        ("{a} :p [ :q {b} ]", "column 8: [ … ] is not supported"),
        ("{a} :p <http://ex/ {b}>", "an IRI cannot contain ' '"),
        ('{a} :p "x\\q"', "bad escape sequence"),
        ('{a} :p "}"', "column 9: unbalanced brace; {{ and }} are literal braces"),
        ('{a} :p "{b}"^^5', "column 15: a datatype must be an IRI, not '5'"),
        (["{a} :p {b}", "{a} :q"], "mapping 2, line 1, column 7"),
        ([5], "a mapping is a str such as"),
    ],
)
def test_errors_have_their_position(text, message):
    with pytest.raises(MappingError) as error:
        parse_mapping(text)
    assert message in str(error.value)


def test_a_missing_column_error_lists_the_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("from,to,amount\nA,B,5\n")
    for text, message in (
        ("{form} :p {to}", "the mapping, line 1, column 1: "),
        ("{from} :p {amount:decimall}", "'decimall' is not a type; the types are string, integer"),
    ):
        with pytest.raises(MappingError, match="its columns: from, to, amount") as error:
            list(open_input(path, map=text))
        assert message in str(error.value)
