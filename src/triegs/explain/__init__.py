"""A plan explained: as text, as a drawing (Mermaid, SVG), or as data (JSON).

>>> from triegs.compiler import compile_query
>>> from triegs.sparql.model import Atom, Form, Query
>>> plan = compile_query(Query(Form.SELECT, ("?x", "?y"), (Atom("?x", "<http://ex/knows>", "?y"),)))
>>> print(explain(plan).partition("\\n\\n")[0])
Query      SELECT ?x ?y, 1 atom
...
"""

from __future__ import annotations

from triegs.explain.formats import Format, explain

__all__ = ["Format", "explain"]
