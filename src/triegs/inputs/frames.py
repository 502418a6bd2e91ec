"""Jelly, through pyjelly: one frame is one event of many triples, all at one tick."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from triegs.errors import InputError
from triegs.inputs.files import InputFile
from triegs.inputs.streams import BrokenFile, Unpacked
from triegs.inputs.work import Found, Place, Work, make_insertions
from triegs.reasons import Reason
from triegs.terms import XSD_STRING, canonical_term, iri, literal, scope_label

NO_PYJELLY = "Jelly needs the package pyjelly: pip install 'triegs[jelly]'"


def read_frames(file: InputFile, work: Work, place: Place) -> Iterator[Found]:
    """A batch for each frame, or several for a long one; graphs are left out."""
    skip = place.get("events", 0)
    given = 0
    for rows in read_frame_rows(file):
        kept = keep_terms(rows, file, work, 3)
        given += len(kept)
        skipped = min(skip, len(kept))
        skip -= skipped
        if not kept[skipped:]:
            continue
        terms = [pa.array(column, pa.string()) for column in zip(*kept[skipped:], strict=True)]
        batch = make_insertions(work.clock.repeat(len(kept) - skipped), terms)
        size = work.options.batch_rows
        for at in range(0, batch.num_rows, size):
            piece = batch.slice(at, size)
            left = batch.num_rows - at - piece.num_rows
            if not left:
                work.clock.take(1)  # the frame is done
            yield piece, {"events": given - left}


def keep_terms(rows: list[list[str]], file: InputFile, work: Work, parts: int) -> list[list[str]]:
    """The first so many parts of each row; a row with a bad one among them is set aside."""
    kept = []
    for row in rows:
        try:
            kept.append([term if term == "" else canonical_term(term) for term in row[:parts]])
        except (TypeError, ValueError) as problem:
            work.quarantine.add(file.name, 0, Reason.BAD_TERM, str(problem), str(row[:parts]))
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
        with _TellBreaks():
            options, frames = get_options_and_frames(stream)
            decoder = _make_decoder(options, file.scope)
        while True:
            with _TellBreaks():
                frame = next(frames, None)
                rows = [] if frame is None else [r for r in decoder.iter_rows(frame) if r]
            if frame is None:
                return
            yield rows


class _TellBreaks:
    """What pyjelly and protobuf raise, as a file that breaks here."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> None:
        if isinstance(problem, Exception) and not isinstance(problem, BrokenFile):
            text = str(problem) or type(problem).__name__
            raise BrokenFile(f"not read as Jelly: {text}") from problem


def _make_decoder(options: Any, scope: str) -> Any:
    from pyjelly.parse.decode import Adapter, Decoder

    class TermAdapter(Adapter):  # type: ignore[misc]
        """Terms as text; statements as lists of four, whatever else is in a row as None."""

        graph = ""  # in which triples are

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
        return f"<{text}>"  # told later, for the one statement
