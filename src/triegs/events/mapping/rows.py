"""Maps a batch of rows to triples, ordered by row and template.

The triples of a row form one event: they are adjacent, and the column `SAME_ROW` marks all but the
first. A marked triple is inserted and deleted together with the one before it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.events.mapping.cells import NOTHING, Cells, Terms, Words
from triegs.events.mapping.model import Mapping, RowNode
from triegs.reasons import Reason, Why
from triegs.terms.term import scope_prefix

#: Marks a triple that belongs to the same row as the triple before it.
SAME_ROW = "triegs_same_row"
TERMS = ("subject", "predicate", "object")
_TOKEN = r"[^A-Za-z0-9-]"


class Triples(NamedTuple):
    """Triples of a batch of rows.

    ``columns`` are the terms by name; ``rows`` is the row of each triple, None if there is exactly
    one triple per row; ``problems`` describes rejected rows.
    """

    columns: dict[str, Any]
    rows: Words | None
    problems: dict[int, Why]


def map_rows(
    mapping: Mapping, columns: dict[str, Any], rows: int, nodes: Any, kept: NDArray[np.bool_]
) -> Triples:
    """The triples of the rows in the mask `kept`. ``nodes`` are the row nodes, for ``[]``.

    Cost: rows times templates, and each distinct cell once. `TypeError` for an unsupported column
    type.

    >>> from triegs.events.mapping import parse_mapping
    >>> table = {"a": pa.array(["x", "y"]), "b": pa.array(["z", None])}
    >>> found = map_rows(parse_mapping("{a} :p {b} ; :q 1"), table, 2, None, np.ones(2, np.bool_))
    >>> found.columns["object"].to_pylist()[0], found.rows.tolist()
    ('<urn:triegs:z>', [0, 0, 1])
    """
    cells = Cells(columns, rows)
    made = [
        [_node_terms(nodes) if isinstance(p, RowNode) else cells.make(p) for p in template.terms]
        for template in mapping.templates
    ]
    problems: dict[int, Why] = {}
    for terms in (terms for template in made for terms in template):
        for row, problem in terms.problems.items():
            problems.setdefault(row, Reason.BAD_CELL.describe(problem))
    there = np.ones((rows, len(made)), np.bool_)
    for number, template in enumerate(made):
        for terms in template:
            there[:, number] &= terms.codes != NOTHING
    there[~kept] = False
    if problems:
        there[list(problems)] = False
    for row in np.flatnonzero(~there.any(axis=1) & kept).tolist():
        empty = [name for name in mapping.columns if not columns[name][row].is_valid]
        problems.setdefault(row, Reason.NO_TRIPLE.describe(f"no value in {', '.join(empty)}"))
    chosen = None
    if not there.all():
        chosen = np.flatnonzero(there.ravel())
    found = {
        name: _interleave([template[position] for template in made], chosen)
        for position, name in enumerate(TERMS)
    }
    if len(made) == 1 and chosen is None:
        return Triples(found, None, problems)
    origins = np.repeat(np.arange(rows), len(made))
    return Triples(found, origins if chosen is None else origins[chosen], problems)


def _node_terms(nodes: Any) -> Terms:
    codes = np.arange(len(nodes))
    if nodes.null_count:
        codes[nodes.is_null().to_numpy(zero_copy_only=False)] = NOTHING
        nodes = nodes.fill_null("_:none")
    return Terms(codes, nodes, {})


def _interleave(parts: list[Terms], chosen: Words | None) -> Any:
    """A column of the terms of all templates, row by row; shared dictionaries appear once."""
    starts: dict[int, int] = {}
    words: list[Any] = []
    size = 0
    for part in parts:
        if id(part.terms) not in starts:
            starts[id(part.terms)] = size
            words.append(part.terms)
            size += len(part.terms)
    codes = np.empty((len(parts[0].codes), len(parts)), np.int32)
    for number, part in enumerate(parts):
        codes[:, number] = part.codes + starts[id(part.terms)]
    flat = codes.ravel()
    dictionary = words[0] if len(words) == 1 else pa.concat_arrays(words)
    picked = flat if chosen is None else flat[chosen]
    return pa.DictionaryArray.from_arrays(pa.array(picked), dictionary)


def mark_same(rows: Words) -> Any:
    """The column `SAME_ROW` for triples of these rows.

    >>> mark_same(np.array([0, 0, 2])).to_pylist()
    [False, True, False]
    """
    same = np.zeros(len(rows), np.bool_)
    same[1:] = rows[1:] == rows[:-1]
    return pa.array(same)


def count_rows(batch: Any) -> int:
    """The number of rows behind the triples of a table; without a mapping, the number of events.

    >>> count_rows(pa.table({SAME_ROW: [False, True, False]}))
    2
    """
    rows: int = batch.num_rows
    if SAME_ROW in batch.schema.names:
        rows -= int(pc.sum(batch.column(SAME_ROW)).as_py() or 0)
    return rows


def find_starts(table: Any) -> Words:
    """The first triple of each row, and the number of triples."""
    if SAME_ROW not in table.schema.names:
        return np.arange(table.num_rows + 1)
    same = np.asarray(table.column(SAME_ROW).to_numpy(zero_copy_only=False), np.bool_)
    return np.append(np.flatnonzero(~same), table.num_rows)


def name_nodes(ids: Any, numbers: Words | None, scope: str, source: str) -> Any:
    """The node of each row, named by its id within the stream ``scope``, or else by its number
    within ``source``. Null without either.

    >>> name_nodes(pa.array(["a-1", None]), np.array([2, 3]), "", "x.csv").to_pylist()
    ['_:ia-1', '_:g7-x-2Ecsv-row3']
    """
    by_number = None
    if numbers is not None:
        texts = pa.array(numbers).cast(pa.string())
        front = scope_prefix(source) + "row"
        by_number = pc.binary_join_element_wise(front, texts, "")
    if ids is None:
        return by_number
    by_id = pc.binary_join_element_wise(
        (scope_prefix(scope) if scope else "_:") + "i", _encode_tokens(ids.cast(pa.string())), ""
    )
    return by_id if by_number is None else pc.coalesce(by_id, by_number)


def _encode_tokens(texts: Any) -> Any:
    """Texts for use in labels; other characters are written as the hex codes of their bytes."""
    unusual = pc.match_substring_regex(texts, _TOKEN).fill_null(False)
    if not pc.any(unusual).as_py():
        return texts
    written = [re.sub(_TOKEN, _write_bytes, text) for text in texts.filter(unusual).to_pylist()]
    return pc.replace_with_mask(texts, unusual, pa.array(written, texts.type))


def _write_bytes(match: re.Match[str]) -> str:
    return "".join(f"_{byte:02X}" for byte in match[0].encode())
