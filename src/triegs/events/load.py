"""Loads RDF files: every statement is an insertion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from triegs.errors import InputError, InvalidUpdate
from triegs.events import open_input
from triegs.events.files import find_format
from triegs.events.updates import Batch, encode_table
from triegs.terms.dictionary import Dictionary

FORMATS = ("n-triples", "n-quads", "turtle", "trig", "rdf-xml")


def list_statements(source: Any, name: str | None = None) -> Iterator[pa.RecordBatch]:
    """All statements of a file as event batches; `InvalidUpdate` if it is malformed."""
    is_path = isinstance(source, str | PathLike)
    label = fspath(source) if is_path else str(getattr(source, "name", "the file"))
    try:
        if is_path and name is None and Path(source).is_dir():
            raise InputError(f"{label} is a directory; load takes a file, or give the format")
        if find_format(label, name, None)[0] not in FORMATS:
            raise InputError(f"{label}: the format must be one of {', '.join(FORMATS)}")
        yield from open_input(source, format=name, strict=True)
    except InputError as problem:
        raise InvalidUpdate(f"{problem}; nothing changed") from problem


def read_statements(dictionary: Dictionary, source: Any, name: str | None) -> Batch:
    """All statements of a file as insertions; `InvalidUpdate` if it is malformed.

    >>> from io import BytesIO
    >>> read_statements(Dictionary(), BytesIO(b"<a:a> <a:p> <a:b> ."), "n-triples").rows
    array([[1, 0, 1, 2]])
    """
    return encode_statements(dictionary, list_statements(source, name))


def encode_statements(dictionary: Dictionary, statements: Iterable[pa.RecordBatch]) -> Batch:
    """Statements that were read already, as insertions."""
    batches = [encode_table(dictionary, batch) for batch in statements]
    empty = np.empty((0, 4), np.int64)
    return Batch(np.concatenate([empty, *(batch.rows for batch in batches)]), None, [])
