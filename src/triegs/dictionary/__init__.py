"""`Dictionary` maps terms to dense integer ids and back.

Reading order: `arrays` (data layout and invariants), `dictionary`, `interning` for single terms,
`encoding` for columns, the kernels in `spelling`, `table` and `counting`, and `decoder`.
"""

from __future__ import annotations

from triegs.dictionary.checks import DictionaryCorrupt
from triegs.dictionary.decoder import Decoder
from triegs.dictionary.dictionary import Dictionary, DictionaryMetrics
from triegs.dictionary.encoding import Encoded, Problem
from triegs.dictionary.values import TermForm

__all__ = [
    "Decoder",
    "Dictionary",
    "DictionaryCorrupt",
    "DictionaryMetrics",
    "Encoded",
    "Problem",
    "TermForm",
]
