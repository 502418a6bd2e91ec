"""Query model → plan. `compile.py` lists the passes in order."""

from triegs.compiler.compile import compile_query, legal_plans
from triegs.compiler.plan import Plan

__all__ = ["Plan", "compile_query", "legal_plans"]
