"""Encodes columns of plain names for IRIs; `triegs.names` defines the rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.names import ENCODED, encode_name
from triegs.terms.columns import buffer_texts

_ASCII = "".join(chr(code) for code in range(128))
# The percent sign comes first: its encoding contains no other of these characters.
_CHARACTERS = "%" + "".join(char for char in ENCODED.findall(_ASCII) if char != "%")
_BEYOND_ASCII = r"[^\x00-\x7F]"


def find_bytes(texts: Any) -> NDArray[np.bool_]:
    """Which byte values occur in a column of texts, to skip replacements that cannot match.

    >>> np.flatnonzero(find_bytes(pa.array(["ab", None, "b"]))).tolist() == [ord("a"), ord("b")]
    True
    """
    data, offsets, _ = buffer_texts(texts)
    return np.bincount(data[offsets[0] : offsets[-1]], minlength=256) > 0


def encode_names(texts: Any) -> Any:
    """A column of texts with ``%XX`` where needed. Linear; a Python step per non-ASCII text.

    >>> encode_names(pa.array(["A", "New York", "café", "“A”"])).to_pylist()
    ['A', 'New%20York', 'café', '%E2%80%9CA%E2%80%9D']
    """
    present = find_bytes(texts)
    found = texts
    for sign in _CHARACTERS:
        if present[ord(sign)]:
            found = pc.replace_substring(found, sign, f"%{ord(sign):02X}")
    if present[128:].any():
        beyond = pc.match_substring_regex(texts, _BEYOND_ASCII)
        rare = [encode_name(text) for text in texts.filter(beyond).to_pylist() if text is not None]
        found = pc.replace_with_mask(found, beyond.fill_null(False), pa.array(rare, found.type))
    return found
