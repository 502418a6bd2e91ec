"""Nasty terms, and answers made of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from triegs.outputs import Head, Kind, Options, ResultBatch, open_writer
from triegs.terms.term import XSD, literal

NASTY = [
    "<http://example.org/a>",
    "<http://example.org/é?x=1&y='2'#z>",
    "<urn:x-test:%20,;>",
    "_:b0",
    '""',
    literal("plain"),
    literal('say "hi", she said'),
    literal("back\\slash \\n no newline \\u0041"),
    literal("a\nb\r\nc\rd\te"),
    literal(" spaces  at both ends "),
    literal("\x01\x07\x1f\x7f"),
    literal("\x00"),
    literal("<&>'\"]]>"),
    literal("{,"),
    literal(',{,"x":'),
    literal("日本語 \U0001f600 é"),
    literal("\ufeffbom \u2028 line separator \x85 next"),
    literal("chat", language="fr"),
    literal("colour\n", language="en-gb"),
    literal('"@en', language="en"),
    literal('"^^<x>'),
    literal("5", XSD + "integer"),
    literal("05", XSD + "integer"),
    literal("1.5E3", XSD + "double"),
    literal("true", XSD + "boolean"),
    literal("2024-01-01", XSD + "date"),
    literal("x", "http://example.org/type?a=1&b=2"),
]
#: XML has no way to write these.
NOT_IN_XML = {literal("\x01\x07\x1f\x7f"), literal("\x00")}

characters = st.characters(codec="utf-8", exclude_characters="\ufffe\uffff")
texts = st.text(characters, max_size=8)
terms = st.one_of(
    st.sampled_from(NASTY),
    texts.map(literal),
    st.builds(
        lambda text, tag: literal(text, language=tag), texts, st.sampled_from(["en", "de-at"])
    ),
    st.builds(lambda text: literal(text, XSD + "date"), texts),
)
Row = tuple[str | None, ...]


def make_batch(names: Sequence[str], rows: Sequence[Row], counts: Sequence[int]) -> Any:
    """As a snapshot gives it."""
    columns = [
        pa.array([row[place] for row in rows], pa.string()).dictionary_encode()
        for place in range(len(names))
    ]
    return pa.record_batch([*columns, pa.array(counts, pa.int64())], [*names, "multiplicity"])


def make_result(
    names: Sequence[str], rows: Sequence[Row], counts: Sequence[int], kind: Kind = Kind.SNAPSHOT,
    epoch: int = 3, time: int | None = 20,
) -> ResultBatch:  # fmt: skip
    return ResultBatch(kind, epoch, time, [make_batch(names, rows, counts)])


def write(head: Head, options: Options, *results: ResultBatch, **how: Any) -> bytes:
    sink = io.BytesIO()
    writer = open_writer(sink, head, options, **how)
    for result in results:
        writer.write(result)
    writer.close()
    return sink.getvalue()
