"""From columns of ids to what the caller asked for: Arrow columns, or rows of Python objects.

``terms`` names the form, which is one of

==============  ==================================================================================
``ntriples``    texts in N-Triples form; in Arrow, dictionary arrays of strings
``python``      Python values; in Arrow, a native column if one type fits all terms, see below
``plain``       names of nodes, and values of literals as with ``python``; `triegs.read.plain`
``ids``         the ids as they are, with -1 where nothing is bound
``rdflib``      objects of rdflib (rows only)
``pyoxigraph``  objects of pyoxigraph (rows only)
==============  ==================================================================================

**Native columns.** A column has the type that holds the values of all its terms, or is as with
``ntriples``; see `triegs.read.native`. The type of a column is the same for all batches. Who has
all batches shows them to `ArrowOutput.survey` first, and gets the type that fits them all; who
streams gets the type that fits the first batch, and `TriegsError` at a later term that it does not
fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from triegs.dictionary import Decoder, TermForm
from triegs.dictionary.arrays import INTEGER, Word, Words
from triegs.dictionary.decoder import allocate, read_term, to_words, wrap
from triegs.errors import TriegsError
from triegs.kernels.jit import kernel
from triegs.names import write_plain
from triegs.read.native import (
    INTEGER_SHAPE,
    TERMS,
    Cell,
    Shape,
    Sort,
    join_shapes,
    read_cell,
    write_cells,
)
from triegs.read.plain import read_plain, read_plain_cell

IDS = "ids"
PLAIN = "plain"
ARROW_FORMS = ("ntriples", "python", PLAIN, IDS)
ROW_FORMS = ("ntriples", "python", PLAIN, IDS, "rdflib", "pyoxigraph")

# Objects that are kept for a row to come.
MOST_OBJECTS = 1 << 17


def integer_table(decoder: Decoder) -> Words:
    """By id: the value of an integer and `INTEGER`; something else in the second place for others.

    A view of the dictionary as it is now, for a kernel that writes integers while it enumerates.
    It costs nothing, and holds for the ids of a snapshot for as long as that is held.

    >>> from triegs.dictionary import Dictionary
    >>> words = Dictionary()
    >>> integer_table(words.decoder())[words.encode_one(-7)].tolist() == [-7, INTEGER]
    True
    """
    return decoder.load().spans


class ArrowOutput:
    """Writes the batches of one result as Arrow columns, with one type per column throughout.

    >>> from triegs.dictionary import Dictionary
    >>> words = Dictionary()
    >>> ids = np.array([words.encode_terms([1, 2, 1]), [words.encode_one("<http://ex/a>")] * 3])
    >>> output = ArrowOutput(words.decoder(), ["x", "y"], "python")
    >>> [column.to_pylist() for column in output.write(ids)]
    [[1, 2, 1], ['<http://ex/a>', '<http://ex/a>', '<http://ex/a>']]
    >>> [str(field.type) for field in output.fields]
    ['int64', 'dictionary<values=string, indices=int32, ordered=0>']
    """

    def __init__(self, decoder: Decoder, names: Sequence[str], terms: str = "ntriples") -> None:
        if terms not in ARROW_FORMS:
            raise ValueError(f"terms is one of {', '.join(ARROW_FORMS)}, not {terms!r}")
        self._form = terms
        self._names = tuple(names)
        # A decoder for each column, so that its dictionary has the terms of no other.
        self._decoders = [Decoder(decoder.load) for _ in names]
        self._base = decoder.base
        fixed = {"ntriples": Shape(Sort.TERM), IDS: INTEGER_SHAPE}
        # None while no term was met that decides.
        self._shapes: list[Shape | None] = [fixed.get(terms)] * len(names)

    @property
    def fields(self) -> list[Any]:
        """The columns as they are known so far; of ids none is null."""
        nullable = self._form != IDS
        return [
            pa.field(name, TERMS if shape is None else shape.type, nullable=nullable)
            for name, shape in zip(self._names, self._shapes, strict=True)
        ]

    def survey(self, ids: Words) -> None:
        """Let the types fit this batch too; for use before the first `write`.

        ``ids`` has a row for each column, with -1 where nothing is bound.
        """
        for place, column in enumerate(ids):
            before = self._shapes[place]
            is_native = self._form in ("python", PLAIN)
            if is_native and (before is None or before.type != TERMS):
                self._shapes[place] = self._find_shape(place, column, before)

    def write(self, ids: Words) -> list[Any]:
        """The columns of one batch, given as to `survey`, which must not change any more."""
        return [self._write(place, column) for place, column in enumerate(ids)]

    def _write(self, place: int, ids: Words) -> Any:
        if self._form == IDS:
            return wrap(ids)
        shape = self._shapes[place]
        if shape is None:
            shape = self._shapes[place] = self._find_shape(place, ids, None) or Shape(Sort.TERM)
        if shape.type == TERMS:
            column = self._decoders[place].decode(ids)
            return self._write_plain(column) if self._form == PLAIN else column
        if shape.sort is Sort.INTEGER:
            column = self._take_integers(place, ids)
            if column is not None:
                return column
        return self._take_values(place, ids, shape)

    def _find_shape(self, place: int, ids: Words, before: Shape | None) -> Shape | None:
        """What holds these terms and those before; None if there are none."""
        if before in (None, INTEGER_SHAPE) and self._take_integers(place, ids) is not None:
            return INTEGER_SHAPE if (ids >= 0).any() else before
        return join_shapes(self._read_distinct(place, ids)[0], before)

    def _take_integers(self, place: int, ids: Words) -> Any:
        """An int64 column; None if a term is no integer of 64 bits in its plainest spelling."""
        values = allocate(len(ids), np.int64)
        spans = integer_table(self._decoders[place])
        row, has_gaps = take_integers(spans, to_words(ids), values)
        return None if row >= 0 else wrap(values, ids < 0 if has_gaps else None)

    def _take_values(self, place: int, ids: Words, shape: Shape) -> Any:
        cells, indices = self._read_distinct(place, ids)
        if self._form == PLAIN and shape.sort is Sort.TEXT:
            texts = [write_plain(cell.term, self._base) for cell in cells]
            return pa.array(texts, pa.string()).take(indices)
        if cells:
            found = join_shapes(cells, shape)
            if found is None or (found.sort, found.type) != (shape.sort, shape.type):
                self._refuse(place, shape, cells)
        return write_cells(cells, shape).take(indices)

    def _read_distinct(self, place: int, ids: Words) -> tuple[list[Cell], Any]:
        """The distinct terms with their values, and which one each row has."""
        column = Decoder(self._decoders[place].load).decode(ids)
        terms = column.dictionary.to_pylist()
        if self._form == PLAIN:
            return [read_plain_cell(term, self._base) for term in terms], column.indices
        return [read_cell(term) for term in terms], column.indices

    def _write_plain(self, column: Any) -> Any:
        """A column of several kinds of values: the texts of all."""
        texts = [write_plain(term, self._base) for term in column.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(column.indices, pa.array(texts, pa.string()))

    def _refuse(self, place: int, shape: Shape, cells: list[Cell]) -> None:
        wrong = next(
            cell
            for cell in cells
            if (joined := shape.join(cell.shape)).sort is not shape.sort
            or joined.type != shape.type
        )
        raise TriegsError(
            f"the column {self._names[place]} began as {shape.type}, which does not fit "
            f"{wrong.term}; ask for terms='ntriples', or for the whole result at once"
        )


class RowOutput:
    """Writes ids as rows of objects; each term is converted once.

    >>> from triegs.dictionary import Dictionary
    >>> words = Dictionary()
    >>> ids = np.array([words.encode_terms([1, 2]), [words.encode_one("<http://ex/a>"), -1]])
    >>> list(RowOutput(words.decoder(), "python").rows(ids))
    [(1, '<http://ex/a>'), (2, None)]
    """

    def __init__(self, decoder: Decoder, terms: str = "ntriples") -> None:
        if terms not in ROW_FORMS:
            raise ValueError(f"terms is one of {', '.join(ROW_FORMS)}, not {terms!r}")
        form = TermForm.NTRIPLES if terms in (IDS, PLAIN) else TermForm(terms)
        base = decoder.base if terms == PLAIN else None
        self._objects = None if terms == IDS else _Objects(decoder, form, base)

    def rows(self, ids: Words) -> Iterator[tuple[Any, ...]]:
        """The rows of a batch: ``ids`` has a row for each column; None where nothing is bound."""
        if len(ids) == 0:
            return iter([()] * ids.shape[1])
        columns = ids.tolist()
        if self._objects is None:
            return zip(*columns, strict=True)
        if len(self._objects) > MOST_OBJECTS:
            self._objects.begin()
        find = self._objects.__getitem__
        return zip(*[list(map(find, column)) for column in columns], strict=True)

    def row(self, ids: Sequence[int]) -> tuple[Any, ...]:
        """One row, for who has no more than one."""
        return tuple(ids) if self._objects is None else tuple(map(self._objects.__getitem__, ids))


class _Objects(dict[int, Any]):
    """Objects by id, made when they are first asked for."""

    def __init__(self, decoder: Decoder, form: TermForm, base: str | None = None) -> None:
        self._load = decoder.load
        self._form = form
        self._base = base
        self.begin()

    def begin(self) -> None:
        self.clear()
        self[-1] = None

    def __missing__(self, identity: int) -> Any:
        found = read_term(self._load(), identity, self._form)
        if self._base is not None:
            found = read_plain(found, self._base)
        self[identity] = found
        return found


@kernel
def take_integers(spans: Words, ids: Words, values: Words) -> tuple[Word, Word]:
    """The values of ids that are integers; the first row that is none, or -1.

    The second number is 1 if a row has no term; its value is 0. A row like the one before is done
    at once.
    """
    has_gaps = 0
    last = ~ids[0] if len(ids) > 0 else 0
    value = np.int64(0)
    for row in range(len(ids)):
        term = ids[row]
        if term != last:
            last = term
            if term < 0 or term >= len(spans):
                if term != -1:
                    return row, has_gaps
                has_gaps = 1
                value = np.int64(0)
            else:
                if spans[term, 1] != INTEGER:
                    return row, has_gaps
                value = spans[term, 0]
        values[row] = value
    return -1, has_gaps
