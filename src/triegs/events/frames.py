"""Jelly through pyjelly: a frame is one event of many triples, all at the same tick."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from triegs.errors import InputError
from triegs.events.context import FilePosition, ReadBatch, ReadContext, make_insertions
from triegs.events.files import InputFile
from triegs.events.streams import BrokenFile, Unpacked
from triegs.reasons import Reason
from triegs.terms.term import XSD_STRING, canonical_term, iri, literal, scope_label

NO_PYJELLY = "Jelly needs the pyjelly package: pip install 'triegs[jelly]'"


def read_frames(
    file: InputFile, context: ReadContext, position: FilePosition
) -> Iterator[ReadBatch]:
    """Yield a batch per frame, or several for a long frame; graphs are dropped."""
    skip = position.get("events", 0)
    given = 0
    for rows in read_frame_rows(file):
        kept = keep_terms(rows, file, context, 3)
        given += len(kept)
        skipped = min(skip, len(kept))
        skip -= skipped
        if not kept[skipped:]:
            continue
        terms = [pa.array(column, pa.string()) for column in zip(*kept[skipped:], strict=True)]
        batch = make_insertions(context.clock.repeat(len(kept) - skipped), terms)
        size = context.options.batch_rows
        for at in range(0, batch.num_rows, size):
            piece = batch.slice(at, size)
            left = batch.num_rows - at - piece.num_rows
            if not left:
                context.clock.take(1)  # the frame is complete
            yield piece, {"events": given - left}


def keep_terms(
    rows: list[list[str]], file: InputFile, context: ReadContext, parts: int
) -> list[list[str]]:
    """The first `parts` terms of each row; rows with an invalid term are quarantined."""
    kept = []
    for row in rows:
        try:
            kept.append([term if term == "" else canonical_term(term) for term in row[:parts]])
        except (TypeError, ValueError) as problem:
            context.quarantine.add(file.name, 0, Reason.BAD_TERM, str(problem), str(row[:parts]))
    return kept


def read_frame_rows(file: InputFile) -> Iterator[list[list[str]]]:
    """The statements of each frame: subject, predicate, object, graph (empty for the default)."""
    try:
        from pyjelly.parse.ioutils import get_options_and_frames
    except ImportError:
        raise InputError(f"{file.name}: {NO_PYJELLY}", file=file.name) from None
    with file.open_bytes() as chunks:
        stream = io.BufferedReader(Unpacked(chunks))
        if not stream.peek(1):
            return
        with _BreakErrors():
            options, frames = get_options_and_frames(stream)
            decoder = _make_decoder(options, file.scope)
        while True:
            with _BreakErrors():
                frame = next(frames, None)
                rows = [] if frame is None else [r for r in decoder.iter_rows(frame) if r]
            if frame is None:
                return
            yield rows


class _BreakErrors:
    """Turns errors of pyjelly and protobuf into `BrokenFile`."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> None:
        if isinstance(problem, Exception) and not isinstance(problem, BrokenFile):
            text = str(problem) or type(problem).__name__
            raise BrokenFile(f"not valid Jelly: {text}") from problem


def _make_decoder(options: Any, scope: str) -> Any:
    from pyjelly.parse.decode import Adapter, Decoder

    class TermAdapter(Adapter):  # type: ignore[misc]
        """Terms as text, statements as lists of four, all other rows as None."""

        graph = ""  # the graph of the current triples

        def iri(self, iri: str) -> str:
            return _write_iri(iri)

        def bnode(self, bnode: str) -> str:
            return scope_label(f"_:{bnode}", scope)

        def literal(
            self, lex: str, language: str | None = None, datatype: str | None = None
        ) -> str:
            return literal(lex, datatype or XSD_STRING, language or "")

        def default_graph(self) -> str:
            return ""

        def quoted_triple(self, terms: Any) -> None:
            list(terms)

        def triple(self, terms: Any) -> list[str]:
            return [*terms, self.graph]

        def quad(self, terms: Any) -> list[str]:
            return list(terms)

        def graph_start(self, graph_id: Any) -> None:
            self.graph = graph_id

        def graph_end(self) -> None:
            self.graph = ""

        def namespace_declaration(self, name: str, iri: str) -> None:
            pass

    return Decoder(TermAdapter(options))


def _write_iri(text: str) -> str:
    try:
        return iri(text)
    except ValueError:
        return f"<{text}>"  # rejected later, with its statement
