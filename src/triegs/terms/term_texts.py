"""Columns of terms as texts, to compare or count terms outside an engine.

Follows the rules of the engine: `triegs.terms.columns` and `triegs.terms.term`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from triegs.terms.columns import is_text, write_column
from triegs.terms.term import canonical_term
from triegs.terms.values import write_value


def write_terms(column: Any) -> Any:
    """The terms of an Arrow array without nulls: 64-bit integers, or a dictionary of texts.

    Two rows have equal values exactly if they have equal terms. Texts must already be canonical.
    Raises like `require_values`. Cost: the rows, plus a Python step per distinct value that is
    neither a text nor an integer.

    >>> write_terms(pa.array([0.5, 0.5, -0.0])).to_pylist()[1:]  # doctest: +NORMALIZE_WHITESPACE
    ['"5.0E-1"^^<http://www.w3.org/2001/XMLSchema#double>',
     '"-0.0E0"^^<http://www.w3.org/2001/XMLSchema#double>']
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        found = write_terms(column.dictionary)
        if not pa.types.is_dictionary(found.type):
            return found.take(column.indices)
        indices = found.indices.take(column.indices)
        return pa.DictionaryArray.from_arrays(indices, found.dictionary)
    if is_text(kind):
        texts = column.cast(pa.large_string()) if pa.types.is_string_view(kind) else column
        return texts.dictionary_encode()
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return column.cast(pa.int64())
    coded = encode_distinct(column)
    values = coded.dictionary
    if pa.types.is_integer(kind):
        written = values.to_pylist()
    else:
        written = write_column(values)
    texts = [None if value is None else canonical_term(write_value(value)) for value in written]
    words = pa.array(texts, pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(words.indices.take(coded.indices), words.dictionary)


def encode_distinct(column: Any) -> Any:
    """The array as a dictionary. Floats are compared by bits: 0.0 and -0.0 are different terms.

    >>> len(encode_distinct(pa.array([0.0, -0.0])).dictionary)
    2
    """
    kind = column.type
    if not pa.types.is_floating(kind):
        return column.dictionary_encode()
    bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
    coded = column.view(bits).dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.view(kind))


def spell_texts(column: Any) -> tuple[Any, dict[int, str]]:
    r"""An array of texts as canonical terms, and the problems of invalid ones by row.

    Nulls are unchanged. Cost: the rows, plus a Python step per distinct text; meant for texts that
    `is_canonical` does not accept.

    >>> spell_texts(pa.array(['"a"@EN', "<a:\\u0062>", "a"]))[0].to_pylist()
    ['"a"@en', '<a:b>', 'a']
    """
    coded = column.dictionary_encode()
    wrong: dict[int, str] = {}
    spelt: list[str | None] = []
    for code, word in enumerate(coded.dictionary):
        try:
            spelt.append(canonical_term(word.as_py()))
        except ValueError as problem:
            spelt.append(None)
            wrong[code] = str(problem)
    words = pc.coalesce(pa.array(spelt, column.type), coded.dictionary)
    return words.take(coded.indices), {
        row: wrong[code]
        for row, code in enumerate(coded.indices.to_pylist() if wrong else ())
        if code in wrong
    }
