"""N-Triples and N-Quads: the kernel and its fallback give what pyoxigraph gives, line by line."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyoxigraph as rdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.events import open_input
from triegs.events.scan_kernels import PLAIN, split_statements
from triegs.jit.jit import COMPILED
from triegs.terms.term import canonical_term

FORMATS = {"n-triples": rdf.RdfFormat.N_TRIPLES, "n-quads": rdf.RdfFormat.N_QUADS}
SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

IRIS = [
    "<http://ex/a>", "<http://ex.org:80/a/b?q=1#f>", "<a:b>", "<urn:isbn:0-486>", "<http://ex/é>",
    "<http://ex/%41>", "<http://ex/%4>", "<http://ex/%zz>", "<http://ex/a b>", "<http://ex/a#b#c>",
    "<http://u@ex/a>", "<http://[::1]/>", "<http://[::1/>", "<http://ex:x/>", "<http://ex:/>",
    "<http:///a>", "<http://>", "<http:>", "<http:/>", "<http:a>", "<a>", "<>", "<:a>", "<1:a>",
    "<a1+-.:b>", "<http://ex/\\u00e9>", "<http://ex/\\U0001F600>", "<http://ex/\\u0020>",
    "<http://ex/😀>", "<http://é/a>", "<http://ex/\ue000>", "<http://ex/?\ue000>", "<http://ex/\ufffe>",
    "<http://ex/{a}>", "<http://ex/|>", "<http://ex/^>", "<http://ex/`>", "<http://ex/a\\>",
    "<http://ex/[a]>", "<http://ex/\t>", "<http://ex/\x7f>", "<http://ex/\x80>", "<http://ex/\xa0>",
    "<http://ex//a>", "<http://ex?a>", "<http://ex#a>", "<mailto:a@b>", "<http://ex/'()*!$&,;=~_>",
    "<http://ex_a/>", "<http://ex/\u200e>", "<http://ex/\u0340>", "<file:///a>", "<a://b:1:2>",
]  # fmt: skip
LABELS = ["_:b", "_:b1", "_:1", "_:_", "_:a-b", "_:a.b", "_:a.", "_:-a", "_:.a", "_:é", "_:a:b",
          "_::a", "_:", "_:a·", "_:a..b", "_: a"]  # fmt: skip
LITERALS = [
    '"x"', '""', '"a b"', '"é😀"', '"\\""', '"\\\\"', '"\\n\\r\\t\\b\\f"', '"\\\'"', '"\'"',
    '"\\x"', '"\\u0041"', '"\\U00000041"', '"\\uD800"', '"\\u000A"', '"a\tb"', '"\x00"', '"\x7f"',
    '"\ufffe"', '"x"@en', '"x"@EN', '"x"@en-gb', '"x"@en-GB', '"x"@de-ch-1996', '"x"@e',
    '"x"@abcdefghij', '"x"@en-', '"x"@en-1', '"x"@x-a', '"x"@i-klingon', '"x"@zh-hans',
    '"x"@en--ltr', '"x"@', '"x"@1', '"x" @en', '"x"^^<a:t>', '"x" ^^ <a:t>', '"x"^^', '"x"^<a:t>',
    '"x"^^a', '"x"^^<t>', f'"x"^^<{XSD}string>', f'"5"^^<{XSD}integer>',
    f'"x"^^<{RDF}langString>', f'"x"^^<{RDF}HTML>', f'"x"^^<{RDF}dirLangString>',
    f'"x"@en^^<{XSD}string>', "'x'", '"x', 'x"', '"""x"""', "5", "true", "a:b",
    "<<( <a:a> <a:b> <a:c> )>>", "<< <a:a> <a:b> <a:c> >>",
]  # fmt: skip
ENDS = [
    " .",
    ".",
    "\t.\t",
    " . # note",
    " .# note",
    "",
    " . .",
    " ;",
    " . <a:x> <a:y> <a:z> .",
    " .x",
]


def read_by_pyoxigraph(line: str, name: str) -> tuple[str, ...] | None:
    """The terms of a line, None if it is bad or has what triegs has no terms for."""
    try:
        found = list(rdf.parse(line.encode(), format=FORMATS[name]))
        if len(found) != 1:
            return None
        return tuple(canonical_term(str(term)) for term in found[0].triple)
    except (SyntaxError, ValueError):
        return None


def read_by_us(text: bytes, name: str, path: Path) -> tuple[list[tuple[str, ...]], Any]:
    path.write_bytes(text)
    source = open_input(path, format=name)
    rows = [
        tuple(row[part] for part in ("subject", "predicate", "object"))
        for batch in source
        for row in batch.to_pylist()
    ]
    return rows, source.report


def strip_scopes(rows: list[tuple[str, ...]], path: Path) -> list[tuple[str, ...]]:
    from triegs.terms.term import scope_prefix

    prefix = scope_prefix(str(path.resolve()))
    return [tuple(t.replace(prefix, "_:") if t[0] == "_" else t for t in row) for row in rows]


def check_lines(lines: list[str], name: str, path: Path) -> None:
    """Each line alone, then all of them in one file."""
    judged = [read_by_pyoxigraph(line, name) for line in lines]
    is_record = [
        bool(line.strip(" \t")) and not line.lstrip(" \t").startswith("#") for line in lines
    ]
    good = [row for row in judged if row is not None]
    found, report = read_by_us("\n".join(lines).encode(), name, path)
    assert strip_scopes(found, path) == good
    bad = sum(record and row is None for record, row in zip(is_record, judged, strict=True))
    assert report.quarantined.total() == bad
    for line, expected in zip(lines, judged, strict=True):
        assert scan_line(line, name) in (None, expected), line


def scan_line(line: str, name: str) -> tuple[str, ...] | None:
    """What the kernel alone finds in a line; None if it is not sure."""
    spans, lines = np.empty((2, 4, 2), np.int64), np.empty((2, 3), np.int64)
    states = np.empty(2, np.uint8)
    data = line.encode()
    view = np.frombuffer(data, np.uint8)
    rows, _, _ = split_statements(view, 0, True, name == "n-quads", spans, lines, states)
    if rows != 1 or states[0] != PLAIN:
        return None
    return tuple(data[start:end].decode() for start, end in spans[0, :3].tolist())


@pytest.mark.parametrize("name", FORMATS)
def test_each_term_in_each_position(name: str, tmp_path: Path) -> None:
    terms = IRIS + LABELS + LITERALS
    lines = [f"{term} <a:p> <a:o> ." for term in terms]
    lines += [f"<a:s> {term} <a:o> ." for term in terms]
    lines += [f"<a:s> <a:p> {term} ." for term in terms]
    lines += [f"<a:s> <a:p> {term}." for term in terms]
    lines += [f"<a:s> <a:p> <a:o> {term} ." for term in terms]
    lines += [
        f"<a:s> <a:p> {term}{end}" for term in ("<a:o>", "_:o", '"o"', '"o"@en') for end in ENDS
    ]
    lines += ["", "  ", "# note", "\t# note", "<a:s>", "<a:s> <a:p>", ".", "<a:s><a:p><a:o>."]
    check_lines(lines, name, tmp_path / "a")


def test_common_lines_take_the_quick_way() -> None:
    """Else all other tests would hold for a kernel that knows nothing."""
    lines = [
        "<http://ex/a> <http://ex/p> <http://ex/b?x=1#y> .",
        "_:a <http://ex.org:8080/p> _:b1 .",
        '<http://ex/a> <http://ex/p> "text \\"quoted\\" é" .',
        '<http://ex/a> <http://ex/p> "text"@en-gb .',
        f'<http://ex/a> <http://ex/p> "5"^^<{XSD}integer> .',
    ]
    assert [
        scan_line(line, "n-triples") for line in lines if scan_line(line, "n-triples") is None
    ] == []
    assert scan_line(f'<a:a> <a:p> "5"^^<{XSD}string> .', "n-triples") == ("<a:a>", "<a:p>", '"5"')


def test_every_character_of_an_iri() -> None:
    """What the kernel takes, pyoxigraph takes: each character of the first planes, in each part."""
    codes = [*range(1, 0x3000), *range(0xCF00, 0xD800), *range(0xE000, 0x10200), 0xE0001, 0xF0000]
    if not COMPILED and not SOAK:  # compiled code has just shown each
        codes = [code for code in codes if code < 0x500 or code % 16 in (0, 13, 15)]
    for where in ("<a:{}>", "<http://{}/>", "<http://ex?{}>", "<http://ex#{}>"):
        for code in codes:
            line = f"<a:s> <a:p> {where.format(chr(code))} ."
            found = scan_line(line, "n-triples")
            if found is not None:
                assert found == read_by_pyoxigraph(line, "n-triples"), hex(code)


alphabet = st.sampled_from(
    [*list("ab:/#?%[]<>\"\\^@._- \t#'u0é😀"), "//", "^^", "_:", "\\u0041", "%41"]
)
fragments = st.lists(alphabet, max_size=12).map("".join)
terms = st.one_of(
    st.sampled_from(IRIS + LABELS + LITERALS),
    fragments.map("<a:{}>".format),
    fragments.map("<http://{}>".format),
    fragments.map('"{}"'.format),
    fragments,
)
blanks = st.sampled_from(["", " ", "\t", "  "])


@st.composite
def draw_line(draw: Any) -> Any:
    parts = draw(st.lists(terms, min_size=2, max_size=4))
    return (
        draw(blanks) + "".join(part + draw(blanks) for part in parts) + draw(st.sampled_from(ENDS))
    )


@given(st.lists(draw_line(), min_size=1, max_size=8), st.sampled_from(sorted(FORMATS)))
def test_drawn_lines(tmp_path_factory: pytest.TempPathFactory, lines: list[str], name: str) -> None:
    check_lines(lines, name, tmp_path_factory.getbasetemp() / "drawn")


def test_line_ends_of_all_kinds(tmp_path: Path) -> None:
    text = b"<a:1> <a:p> _:o.\n<a:2> <a:p> _:o.\r\n<a:3> <a:p> _:o .\r\rbad\r\n\r\n<a:4> <a:p> _:o."
    found, report = read_by_us(text, "n-triples", tmp_path / "a")
    assert [row[0] for row in found] == ["<a:1>", "<a:2>", "<a:3>", "<a:4>"]
    assert report.quarantined == {"bad line": 1}
    assert report.read == 5


@pytest.mark.parametrize("rows", [1, 2, 3, 1000])
def test_lines_are_numbered_over_batches(rows: int, tmp_path: Path) -> None:
    lines = [f"<a:{n}> <a:p> <a:o> ." if n % 7 else "# note\r\nbad" for n in range(50)]
    path = tmp_path / "a.nt"
    path.write_text("\n".join(lines), newline="")
    aside = tmp_path / "aside.jsonl"
    batches = list(open_input(path, batch_rows=rows, quarantine=aside))
    assert all(batch.num_rows <= rows for batch in batches)
    import json

    numbers = [json.loads(line)["line"] for line in aside.read_text().splitlines()]
    text = "\n".join(lines).replace("\r\n", "\n").split("\n")
    assert numbers == [n for n, line in enumerate(text, 1) if line == "bad"]


def test_a_file_object_and_its_blank_nodes() -> None:
    text = b"_:a <a:p> _:a .\n"
    rows = [b.to_pylist()[0] for _ in range(2) for b in open_input(io.BytesIO(text), format="nt")]
    assert rows[0]["subject"] == rows[0]["object"] != "_:a"
