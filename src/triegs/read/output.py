"""From columns of ids to Arrow columns, or to rows of Python objects.

``terms`` names the form:

==============  ==================================================================================
``ntriples``    strings in N-Triples form; in Arrow, dictionary arrays of strings
``python``      Python values; in Arrow, a native column if one type fits all terms, see below
``plain``       names of nodes, and values of literals as with ``python``; `triegs.read.plain`
``ids``         dictionary ids, with -1 for unbound
``rdflib``      objects of rdflib (rows only)
``pyoxigraph``  objects of pyoxigraph (rows only)
==============  ==================================================================================

**Native columns.** A column has a type that holds the values of all its terms, or is as with
``ntriples``; see `triegs.terms.native`. All batches have the same type. A caller that has all
batches passes them to `ArrowOutput.survey` first, and gets a type that fits all. A caller that
streams gets a type that fits the first batch, and `TriegsError` at a later term that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from triegs.errors import TriegsError
from triegs.jit.jit import kernel
from triegs.names import write_plain
from triegs.read.plain import read_plain, read_plain_cell
from triegs.terms.arrays import INTEGER, Word, Words
from triegs.terms.decoder import Decoder, allocate, narrow, point, read_term, to_words, wrap
from triegs.terms.native import (
    INTEGER_SHAPE,
    TERMS,
    Cell,
    Shape,
    Sort,
    join_shapes,
    read_cell,
    write_cells,
)
from triegs.terms.native_words import NativeBatch
from triegs.terms.values import TermForm

IDS = "ids"
PLAIN = "plain"
ARROW_FORMS = ("ntriples", "python", PLAIN, IDS)
ROW_FORMS = ("ntriples", "python", PLAIN, IDS, "rdflib", "pyoxigraph")

# The most objects cached for later rows.
MOST_OBJECTS = 1 << 17


def integer_table(decoder: Decoder) -> Words:
    """By id, the value of an integer and `INTEGER`; for other terms the second column differs.

    A view of the dictionary as it is now, for kernels that write integers while they enumerate.
    Cost: none. It is valid for the ids of a snapshot while that is open.

    >>> from triegs.terms.dictionary import Dictionary
    >>> words = Dictionary()
    >>> integer_table(words.decoder())[words.encode_one(-7)].tolist() == [-7, INTEGER]
    True
    """
    return decoder.load().spans


class ArrowOutput:
    """Writes the batches of one result as Arrow columns, with one type per column.

    ``rows`` are the least that the result has; large ones share an array of terms
    (`Decoder.share`).

    >>> from triegs.terms.dictionary import Dictionary
    >>> words = Dictionary()
    >>> ids = np.array([words.encode_terms([1, 2, 1]), [words.encode_one("<http://ex/a>")] * 3])
    >>> output = ArrowOutput(words.decoder(), ["x", "y"], "python")
    >>> [column.to_pylist() for column in output.write(ids)]
    [[1, 2, 1], ['<http://ex/a>', '<http://ex/a>', '<http://ex/a>']]
    >>> [str(field.type) for field in output.fields]
    ['int64', 'dictionary<values=string, indices=int32, ordered=0>']
    """

    def __init__(
        self,
        decoder: Decoder | Sequence[Decoder],
        names: Sequence[str],
        terms: str = "ntriples",
        rows: int = 0,
    ) -> None:
        if terms not in ARROW_FORMS:
            raise ValueError(f"terms must be one of {', '.join(ARROW_FORMS)}, not {terms!r}")
        self._form = terms
        self._names = tuple(names)
        # A decoder per column, so that its dictionary has only its own terms, unless it is shared.
        given = [decoder] * len(names) if isinstance(decoder, Decoder) else decoder
        self._rows = rows
        self._given = given
        self._shared: dict[Decoder, Any] = {}
        self._decoders = [Decoder(each.load) for each in given]
        self._base = given[0].base if given else ""
        fixed = {"ntriples": Shape(Sort.TERM), IDS: Shape(Sort.ID)}
        # None until a term decides it.
        self._shapes: list[Shape | None] = [fixed.get(terms)] * len(names)

    @property
    def fields(self) -> list[Any]:
        """The fields as far as they are known; ids are never null."""
        nullable = self._form != IDS
        return [
            pa.field(name, TERMS if shape is None else shape.type, nullable=nullable)
            for name, shape in zip(self._names, self._shapes, strict=True)
        ]

    def survey(self, ids: Words | Sequence[Words]) -> None:
        """Make the types fit this batch, too; for use before the first `write`.

        ``ids`` has a row for each column, with -1 for unbound.
        """
        for number, column in enumerate(ids):
            before = self._shapes[number]
            is_native = self._form in ("python", PLAIN)
            if is_native and (before is None or before.type != TERMS):
                self._shapes[number] = self._find_shape(number, column, before)

    def write(self, ids: Words | Sequence[Words]) -> list[Any]:
        """The columns of one batch, in the form of `survey`, which must not be called any more."""
        return [self._write(number, column) for number, column in enumerate(ids)]

    def _write(self, number: int, ids: Words) -> Any:
        if self._form == IDS:
            return wrap(narrow(ids))
        shape = self._shapes[number]
        if shape is None:
            shape = self._shapes[number] = self._find_shape(number, ids, None) or Shape(Sort.TERM)
        if shape.type == TERMS:
            if self._form == PLAIN:
                return self._write_plain(self._decoders[number].decode(ids))
            terms = self._share(self._given[number])
            return self._decoders[number].decode(ids) if terms is None else point(ids, terms)
        if shape.sort is Sort.INTEGER:
            column = self._take_integers(number, ids)
            if column is not None:
                return column
        return self._take_values(number, ids, shape)

    def _share(self, decoder: Decoder) -> Any:
        """The array of all terms, the same for all batches; None if they do not share it."""
        if decoder not in self._shared:
            self._shared[decoder] = decoder.share(self._rows)
        return self._shared[decoder]

    def _find_shape(self, number: int, ids: Words, before: Shape | None) -> Shape | None:
        """A shape for these terms and those before; None if there are none."""
        if before in (None, INTEGER_SHAPE) and self._take_integers(number, ids) is not None:
            return INTEGER_SHAPE if (ids >= 0).any() else before
        found = self._gather(number, ids)
        if found is not None:
            return found.join(before)
        return join_shapes(self._read_distinct(number, ids)[0], before)

    def _gather(self, number: int, ids: Words) -> NativeBatch | None:
        """The values that are noted by id; None if the terms must be read."""
        load = self._given[number].load_values
        found = None if load is None else load(ids)
        if found is None or self._form != PLAIN:
            return found
        sorts = {kind.shape.sort for kind in found.kinds.values()}
        return None if sorts & {Sort.TERM, Sort.TEXT} else found

    def _take_integers(self, number: int, ids: Words) -> Any:
        """An int64 column; None if a term is not a 64-bit integer in canonical form."""
        values = allocate(len(ids), np.int64)
        spans = integer_table(self._decoders[number])
        row, has_gaps = take_integers(spans, to_words(ids), values)
        return None if row >= 0 else wrap(values, ids < 0 if has_gaps else None)

    def _take_values(self, number: int, ids: Words, shape: Shape) -> Any:
        values = None if shape.sort is Sort.TEXT else self._gather(number, ids)
        if values is not None and _is_held(values.join(shape), shape):
            column = values.write(shape)
            if column is not None:
                return column
        cells, indices = self._read_distinct(number, ids)
        if self._form == PLAIN and shape.sort is Sort.TEXT:
            texts = [write_plain(cell.term, self._base) for cell in cells]
            return pa.array(texts, pa.string()).take(indices)
        if cells and not _is_held(join_shapes(cells, shape), shape):
            self._refuse(number, shape, cells)
        return write_cells(cells, shape).take(indices)

    def _read_distinct(self, number: int, ids: Words) -> tuple[list[Cell], Any]:
        """The distinct terms with their values, and the index of each row's term."""
        column = Decoder(self._decoders[number].load).decode(ids)
        terms = column.dictionary.to_pylist()
        if self._form == PLAIN:
            return [read_plain_cell(term, self._base) for term in terms], column.indices
        return [read_cell(term) for term in terms], column.indices

    def _write_plain(self, column: Any) -> Any:
        """A column of mixed values, as strings."""
        texts = [write_plain(term, self._base) for term in column.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(column.indices, pa.array(texts, pa.string()))

    def _refuse(self, number: int, shape: Shape, cells: list[Cell]) -> None:
        wrong = next(
            cell
            for cell in cells
            if (joined := shape.join(cell.shape)).sort is not shape.sort
            or joined.type != shape.type
        )
        raise TriegsError(
            f"the column {self._names[number]} began as {shape.type}, which does not fit "
            f"{wrong.term}; use terms='ntriples', or read the whole result at once"
        )


def _is_held(joined: Shape | None, shape: Shape) -> bool:
    """Whether a column of this shape holds what it was joined with."""
    return joined is not None and (joined.sort, joined.type) == (shape.sort, shape.type)


class RowOutput:
    """Writes ids as rows of objects; each term is converted once.

    >>> from triegs.terms.dictionary import Dictionary
    >>> words = Dictionary()
    >>> ids = np.array([words.encode_terms([1, 2]), [words.encode_one("<http://ex/a>"), -1]])
    >>> list(RowOutput(words.decoder(), "python").rows(ids))
    [(1, '<http://ex/a>'), (2, None)]
    """

    def __init__(self, decoder: Decoder | Sequence[Decoder], terms: str = "ntriples") -> None:
        if terms not in ROW_FORMS:
            raise ValueError(f"terms must be one of {', '.join(ROW_FORMS)}, not {terms!r}")
        form = TermForm.NTRIPLES if terms in (IDS, PLAIN) else TermForm(terms)
        given = [decoder] if isinstance(decoder, Decoder) else list(decoder)
        base = given[0].base if given and terms == PLAIN else None
        objects = {each: _Objects(each, form, base) for each in given}
        #: By column; a single one serves all columns. None for ids.
        self._objects = None if terms == IDS else [objects[each] for each in given]
        if len(objects) == 1 and self._objects is not None:
            self._objects = self._objects[:1]

    def rows(self, ids: Words) -> Iterator[tuple[Any, ...]]:
        """The rows of a batch: ``ids`` has a row for each column; None for unbound."""
        if len(ids) == 0:
            return iter([()] * ids.shape[1])
        columns = ids.tolist()
        if self._objects is None:
            return zip(*columns, strict=True)
        for objects in self._objects:
            if len(objects) > MOST_OBJECTS:
                objects.begin()
        found = zip(self._find(len(columns)), columns, strict=True)
        return zip(*[list(map(find, column)) for find, column in found], strict=True)

    def row(self, ids: Sequence[int]) -> tuple[Any, ...]:
        """One row."""
        if self._objects is None:
            return tuple(ids)
        return tuple(find(i) for find, i in zip(self._find(len(ids)), ids, strict=True))

    def _find(self, width: int) -> list[Callable[[int], Any]]:
        """For each column, the object of an id."""
        assert self._objects is not None
        objects = self._objects * width if len(self._objects) == 1 else self._objects
        return [each.__getitem__ for each in objects]


class _Objects(dict[int, Any]):
    """Objects by id, made on first use."""

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
    """Write the values of integer ids; returns the first row that is not an integer, or -1.

    The second result is 1 if a row is unbound; its value is 0. A row that repeats the one before
    needs no lookup.
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
