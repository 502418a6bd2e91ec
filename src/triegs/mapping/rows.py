"""A batch of rows to its triples: row by row, and of each row template by template.

The triples of a row are one event. So they stand together, and all but the first are marked by the
column `SAME_ROW`: such a triple comes and goes with the one before it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.mapping.cells import NOTHING, Cells, Terms, Words
from triegs.mapping.model import Mapping, RowNode
from triegs.reasons import Reason, Why
from triegs.terms import scope_prefix

#: Marks a triple that belongs to the row of the triple before it.
SAME_ROW = "triegs_same_row"
TERMS = ("subject", "predicate", "object")
_TOKEN = r"[^A-Za-z0-9-]"


class Triples(NamedTuple):
    """``columns`` are the terms by name; ``rows`` has the row of each triple, None if the triples
    are the rows; ``problems`` has what is wrong with rows that make none.
    """

    columns: dict[str, Any]
    rows: Words | None
    problems: dict[int, Why]


def map_rows(
    mapping: Mapping, columns: dict[str, Any], rows: int, nodes: Any, kept: NDArray[np.bool_]
) -> Triples:
    """The triples of the rows that are `kept`. ``nodes`` are those of the rows, for ``[]``.

    Cost: rows times templates, and one reading of each distinct cell. `TypeError` for a column of a
    type that has no texts.

    >>> from triegs.mapping import parse_mapping
    >>> table = {"a": pa.array(["x", "y"]), "b": pa.array(["z", None])}
    >>> found = map_rows(parse_mapping("{a} :p {b} ; :q 1"), table, 2, None, np.ones(2, np.bool_))
    >>> found.columns["object"].to_pylist()[0], found.rows.tolist()
    ('<urn:triegs:z>', [0, 0, 1])
    """
    cells = Cells(columns, rows)
    made = [
        [_node_terms(nodes) if isinstance(p, RowNode) else cells.make(p) for p in template.places]
        for template in mapping.templates
    ]
    problems: dict[int, Why] = {}
    for place in (place for template in made for place in template):
        for row, problem in place.problems.items():
            problems.setdefault(row, Reason.BAD_CELL.tell(problem))
    there = np.ones((rows, len(made)), np.bool_)
    for number, template in enumerate(made):
        for place in template:
            there[:, number] &= place.codes != NOTHING
    there[~kept] = False
    if problems:
        there[list(problems)] = False
    for row in np.flatnonzero(~there.any(axis=1) & kept).tolist():
        empty = [name for name in mapping.columns if columns[name][row].as_py() is None]
        problems.setdefault(row, Reason.NO_TRIPLE.tell(f"there is nothing in {', '.join(empty)}"))
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
    """One column of the terms of all templates, row by row; equal dictionaries are put in once."""
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
    """The column `SAME_ROW` of triples with these rows.

    >>> mark_same(np.array([0, 0, 2])).to_pylist()
    [False, True, False]
    """
    same = np.zeros(len(rows), np.bool_)
    same[1:] = rows[1:] == rows[:-1]
    return pa.array(same)


def count_rows(batch: Any) -> int:
    """How many rows the triples of a table or batch are of: events, if they came without mapping.

    >>> count_rows(pa.table({SAME_ROW: [False, True, False]}))
    2
    """
    rows: int = batch.num_rows
    if SAME_ROW in batch.schema.names:
        rows -= int(pc.sum(batch.column(SAME_ROW)).as_py() or 0)
    return rows


def find_starts(table: Any) -> Words:
    """Where each row begins among its triples, and the end of the last one."""
    if SAME_ROW not in table.schema.names:
        return np.arange(table.num_rows + 1)
    same = np.asarray(table.column(SAME_ROW).to_numpy(zero_copy_only=False), np.bool_)
    return np.append(np.flatnonzero(~same), table.num_rows)


def name_nodes(ids: Any, numbers: Words | None, scope: str, place: str) -> Any:
    """The node of each row: by its id, which is the same wherever it comes from in the stream that
    ``scope`` names; else by its number in the ``place`` that it is read from. Null without either.

    >>> name_nodes(pa.array(["a-1", None]), np.array([2, 3]), "", "x.csv").to_pylist()
    ['_:ia-1', '_:g7-x-2Ecsv-row3']
    """
    by_number = None
    if numbers is not None:
        texts = pa.array(numbers).cast(pa.string())
        front = scope_prefix(place) + "row"
        by_number = pc.binary_join_element_wise(front, texts, "")
    if ids is None:
        return by_number
    by_id = pc.binary_join_element_wise(
        (scope_prefix(scope) if scope else "_:") + "i", _encode_tokens(ids.cast(pa.string())), ""
    )
    return by_id if by_number is None else pc.coalesce(by_id, by_number)


def _encode_tokens(texts: Any) -> Any:
    """Texts as parts of labels: what a label cannot have is written by the numbers of its bytes."""
    unusual = pc.match_substring_regex(texts, _TOKEN).fill_null(False)
    if not pc.any(unusual).as_py():
        return texts
    written = [re.sub(_TOKEN, _write_bytes, text) for text in texts.filter(unusual).to_pylist()]
    return pc.replace_with_mask(texts, unusual, pa.array(written, texts.type))


def _write_bytes(match: re.Match[str]) -> str:
    return "".join(f"_{byte:02X}" for byte in match[0].encode())
