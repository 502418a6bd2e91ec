"""Maps table rows to triples by templates such as ``{from} :paid {to}``.

Reading order: `parser` (text to `Mapping`), `model`, `cells` (columns to terms), `rows` (row
batches to triples). `triegs.names` converts between plain names and IRIs.
"""

from triegs.events.mapping.model import Mapping
from triegs.events.mapping.parser import parse_mapping

__all__ = ["Mapping", "parse_mapping"]
