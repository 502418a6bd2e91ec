"""Terms to dense integer ids and back: `Dictionary`.

Read in this order: `arrays` (what is stored, and the invariants), `dictionary`, `interning` for one
term and `encoding` for a column, the kernels in `spelling`, `table` and `counting`, and `decoder`
for the way back.
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
