"""Explanations of a plan: text, drawings (Mermaid, SVG), or data (JSON).

>>> from triegs.compiler import compile_query
>>> from triegs.sparql.model import Atom, Form, Query
>>> query = Query(Form.SELECT, ("?x", "?y"), (Atom("?x", "<http://ex/knows>", "?y"),))
>>> print(*explain(compile_query(query)).splitlines()[:2], sep=chr(10))
Query      SELECT ?x ?y, 1 atom
Class      full-acyclic: acyclic, and the head shows every variable
"""

from __future__ import annotations

from triegs.explain.formats import Format, explain

__all__ = ["Format", "explain"]
