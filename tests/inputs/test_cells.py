"""CSV against Python's reader, plain terms, integers, and times of graphs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triegs.errors import InputError
from triegs.events import graph_times, open_input
from triegs.events.updates import encode_table
from triegs.terms.dictionary import Dictionary

XSD = "http://www.w3.org/2001/XMLSchema#"
HEADER = "subject,predicate,object\n"
EX = {"ex": "http://ex/", "": "http://base/"}

cells = st.text(st.sampled_from(list('ab,"\t é\n\r')), max_size=6)


def read(text: str | bytes, **options: Any) -> tuple[list[dict[str, Any]], Any]:
    data = text.encode() if isinstance(text, str) else text
    source = open_input(io.BytesIO(data), **{"format": "csv", **options})
    return [row for batch in source for row in batch.to_pylist()], source.report


@settings(max_examples=300)
@given(
    st.lists(cells, max_size=20), st.sampled_from(["\n", "\r\n"]), st.integers(1, 5), st.booleans()
)
def test_cells_are_what_python_wrote(
    texts: list[str], end: str, rows: int, all_quoted: bool
) -> None:
    """With plain terms a cell may have anything in it, line breaks too."""
    target = io.StringIO(newline="")
    all_quoted |= "\r" in "".join(texts)  # which Python forgets to quote before 3.13
    quoting: Any = csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL
    writer = csv.writer(target, lineterminator=end, quoting=quoting)
    writer.writerow(["object", "predicate", "subject"])
    for text in texts:
        writer.writerow([text, "<a:p>", "<a:s>"])
    found, report = read(target.getvalue(), terms="plain", batch_rows=rows)
    dictionary = Dictionary()
    terms = [row["object"] for row in found]
    values = dictionary.decode_values(dictionary.encode(terms).ids, "python").tolist()
    assert values == [text for text in texts if text]
    assert report.quarantined == ({"no object": texts.count("")} if "" in texts else {})


def test_only_with_plain_terms_do_cells_span_lines() -> None:
    text = HEADER + '<a:a>,<a:p>,"x\n<a:b>,<a:p>,<a:c>\n'
    rows, report = read(text)
    assert [row["subject"] for row in rows] == ["<a:b>"]
    rows, report = read(text, terms="plain")  # the quote is never closed
    assert [row["subject"] for row in rows] == ["<a:b>"]
    assert report.quarantined == {"bad line": 1}
    text = HEADER + '<a:a>,<a:p>,"x\ny"\nbad\n'
    rows, report = read(text, terms="plain")
    assert rows[0]["object"] == '"x\\ny"'


def test_lines_are_counted_over_cells_of_many_lines(tmp_path: Path) -> None:
    text = HEADER + '<a:a>,<a:p>,"x\r\ny\nz"\r\n\r\nbad\n'
    read(text, terms="plain", quarantine=tmp_path / "aside")
    assert json.loads((tmp_path / "aside").read_text())["line"] == 6


def test_lines_are_counted_after_an_unclosed_quote(tmp_path: Path) -> None:
    text = HEADER + '<a:a>,<a:p>,"x\ny\n<a:b>,<a:p>,<a:c>\nbad\n'
    rows, _ = read(text, terms="plain", quarantine=tmp_path / "aside")
    assert [row["subject"] for row in rows] == ["<a:b>"]
    aside = (tmp_path / "aside").read_text().splitlines()
    assert [json.loads(entry)["line"] for entry in aside] == [2, 3, 5]


PLAIN = [
    ("<http://ex/a>", "<http://ex/a>"),
    ("ex:a", "<http://ex/a>"),
    (":a", "<http://base/a>"),
    ("ex:", "<http://ex/>"),
    ("xe:a", '"xe:a"'),
    ("at ex:a", '"at ex:a"'),
    ("ex:a b", '"ex:a b"'),
    ("5", f'"5"^^<{XSD}integer>'),
    ("-05", f'"-05"^^<{XSD}integer>'),
    ("1.5", f'"1.5"^^<{XSD}decimal>'),
    ("1e3", f'"1e3"^^<{XSD}double>'),
    ("true", f'"true"^^<{XSD}boolean>'),
    ("True", '"True"'),
    ('"x"@en', '"\\"x\\"@en"'),
    ("10:30", '"10:30"'),
    ("a\\b", '"a\\\\b"'),
]


@pytest.mark.parametrize("format_name", ["csv", "jsonl"])
@pytest.mark.parametrize(("text", "term"), PLAIN)
def test_plain_terms(text: str, term: str, format_name: str) -> None:
    if format_name == "csv":
        target = io.StringIO()
        csv.writer(target).writerows([["subject", "predicate", "object"], ["ex:s", "ex:p", text]])
        data = target.getvalue()
    else:
        data = json.dumps({"subject": "ex:s", "predicate": "ex:p", "object": text})
    rows, _ = read(data, format=format_name, terms="plain", prefixes=EX, strict=True)
    assert (rows[0]["subject"], rows[0]["object"]) == ("<http://ex/s>", term)


def test_blank_nodes_and_mistakes_in_plain_terms() -> None:
    text = HEADER + "_:a,ex:p,_:a\nex:s,knows,1\n<a b>,ex:p,1\nex:s,ex:p,ex:<\n_:,ex:p,1\n"
    rows, report = read(text, terms="plain", prefixes=EX)
    assert len(rows) == 1
    assert rows[0]["subject"] == rows[0]["object"] != "_:a"
    assert report.quarantined == {"bad term": 4}


def test_integers_stay_integers() -> None:
    text = HEADER + "1,2,3\n4,5,-9223372036854775808\n"
    (batch,) = open_input(io.BytesIO(text.encode()), format="csv", terms="integers")
    assert [batch.schema.field(n).type for n in ("subject", "object")] == ["int64", "int64"]
    rows, report = read(text + "x,1,1\n1,9223372036854775808,1\n7,8,9\n", terms="integers")
    assert [row["subject"] for row in rows] == [1, 4, 7]
    assert report.quarantined == {"bad term": 2}


def test_json_values_become_terms_of_their_type() -> None:
    record = {"subject": "<a:s>", "predicate": "<a:p>", "object": 0}
    values = [5, 2.5, True, "<a:o>", 2**70]
    lines = [json.dumps({**record, "object": value}) for value in values]
    rows, _ = read("\n".join(lines), format="jsonl", strict=True)
    datatypes = [row["object"].partition("^^")[2] for row in rows]
    names = ["integer", "double", "boolean", "", "integer"]
    assert datatypes == [f"<{XSD}{name}>" if name else "" for name in names]


@pytest.mark.parametrize("format_name", ["csv", "jsonl", "nt"])
def test_batches_are_what_the_engine_takes(format_name: str) -> None:
    text = {
        "csv": HEADER + "<a:a>,<a:p>,5\n".replace("5", f'"""5""^^<{XSD}integer>"'),
        "jsonl": '{"subject": "<a:a>", "predicate": "<a:p>", "object": 5}',
        "nt": f'<a:a> <a:p> "5"^^<{XSD}integer> .',
    }[format_name]
    dictionary = Dictionary()
    (batch,) = open_input(io.BytesIO(text.encode()), format=format_name)
    encoded = encode_table(dictionary, batch)
    assert encoded.rows.tolist() == [[1, *dictionary.encode_terms(["<a:a>", "<a:p>", 5])]]


def test_json_records_are_all_timed_or_none(tmp_path: Path) -> None:
    record = '"subject": 1, "predicate": 1, "object": 1}\n'
    timed, untimed = '{"time": 7, ' + record, "{" + record
    for rows in (1, 10):
        found, report = read(timed + untimed + timed, format="jsonl", batch_rows=rows)
        assert [row["time"] for row in found] == [7, 7]
        assert report.quarantined == {"no time": 1}
        found, report = read(untimed + timed + untimed, format="jsonl", batch_rows=rows)
        assert [row["time"] for row in found] == [0, 1]
        assert report.quarantined == {"bad time": 1}


def test_ticks_continue_from_file_to_file(tmp_path: Path) -> None:
    for name in ("a.nt", "b.nt"):
        (tmp_path / name).write_text("<a:a> <a:p> <a:b> .\nbad\n<a:a> <a:p> <a:c> .\n")
    source = open_input([tmp_path / "a.nt", tmp_path / "b.nt"], start_time=-1)
    assert [batch["time"].to_pylist() for batch in source] == [[-1, 0], [1, 2]]


# Times of graphs ----------------------------------------------------------------------------------

PROV = "http://www.w3.org/ns/prov#generatedAtTime"


def stamp(graph: str, seconds: int) -> str:
    return f'{graph} <{PROV}> "1970-01-01T00:00:{seconds:02}Z"^^<{XSD}dateTime> .\n'


def quad(subject: str, graph: str) -> str:
    return f"<a:{subject}> <a:p> <a:o> {graph} .\n"


def read_timed(text: str, **options: Any) -> tuple[list[tuple[str, int]], Any]:
    options = {"format": "nq", "graph_time": PROV, **options}
    rows, report = read(text, **options)
    return [(row["subject"], row["time"]) for row in rows], report


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_the_time_of_a_graph_comes_before_or_after(rows: int) -> None:
    text = stamp("<a:g>", 1) + quad("1", "<a:g>") + quad("2", "_:h") + quad("3", "<a:g>")
    text += quad("4", "_:h") + stamp("_:h", 2) + quad("5", "_:h")
    found, report = read_timed(text, batch_rows=rows)
    expected = [("<a:1>", 1000), ("<a:2>", 2000), ("<a:3>", 1000), ("<a:4>", 2000), ("<a:5>", 2000)]
    assert found == expected
    assert (report.read, report.events) == (7, 5)


def test_trig_has_times_of_graphs_too() -> None:
    text = f"""@prefix : <a:> . @prefix xsd: <{XSD}> .
    :g {{ :1 :p :o . :2 :p :o }}  :g <{PROV}> "7"^^xsd:integer ."""
    assert read_timed(text, format="trig")[0] == [("<a:1>", 7), ("<a:2>", 7)]


def test_statements_without_a_time_are_quarantined() -> None:
    text = quad("1", "<a:g>") + quad("2", "") + stamp("<a:h>", 1) + quad("3", "<a:h>")
    text += stamp("<a:h>", 2) + stamp("<a:h>", 1) + f"<a:i> <{PROV}> <a:soon> .\n"
    text += f'<a:i> <{PROV}> "soon"^^<{XSD}dateTime> .\n' + quad("4", "<a:i>")
    found, report = read_timed(text)
    assert found == [("<a:3>", 1000)]
    assert report.quarantined == {"no time": 3, "bad time": 3}
    with pytest.raises(InputError, match="line 5: bad time"):
        read_timed(text, strict=True)


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_a_time_that_comes_too_late(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is bounded: triples wait for so many statements, not for ever."""
    monkeypatch.setattr(graph_times, "REACH", 20)
    others = stamp("<a:h>", 1) + "".join(quad(f"h{n}", "<a:h>") for n in range(300))
    found, report = read_timed(quad("1", "<a:g>") + others + stamp("<a:g>", 1), batch_rows=rows)
    assert len(found) == 300
    assert report.quarantined == {"no time": 1}
    near = stamp("<a:h>", 1) + "".join(quad(f"h{n}", "<a:h>") for n in range(18))
    found, report = read_timed(quad("1", "<a:g>") + near + stamp("<a:g>", 1), batch_rows=rows)
    assert len(found) == 19
    assert report.quarantined == {}


def test_times_of_fresh_graphs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_times, "REACH", 20)
    kept: list[int] = []
    give = graph_times.TimedGraphs._give

    def spy(graphs: Any, is_last: bool) -> Any:
        kept.append(len(graphs._times))
        return give(graphs, is_last)

    monkeypatch.setattr(graph_times.TimedGraphs, "_give", spy)
    text = "".join(stamp(f"<a:g{n}>", 1) + quad(str(n), f"<a:g{n}>") for n in range(1000))
    found, _report = read_timed(text, batch_rows=10)
    assert len(found) == 1000
    assert max(kept) < 100


def test_resuming_with_times_of_graphs(tmp_path: Path) -> None:
    text = "".join(quad(str(n), f"<a:g{n % 3}>") for n in range(20))
    text += "".join(stamp(f"<a:g{n}>", n) for n in range(3))
    path = tmp_path / "a.nq"
    path.write_text(text + quad("x", "<a:g1>"))
    source = open_input(path, graph_time=PROV, batch_rows=4)
    rows: list[Any] = []
    marks = [(0, source.position)]
    for batch in source:
        rows += batch.to_pylist()
        marks.append((len(rows), source.position))
    assert len(rows) == 21
    for done, position in marks:
        rest = open_input(path, graph_time=f"<{PROV}>", start=position)
        assert [row for batch in rest for row in batch.to_pylist()] == rows[done:]
