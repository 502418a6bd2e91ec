"""The formats of an explanation, and the function that writes each."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from triegs.compiler.plan import Plan
from triegs.explain.as_json import explain_json
from triegs.explain.mermaid import explain_mermaid
from triegs.explain.svg import explain_svg
from triegs.explain.text import explain_text
from triegs.maintain.lowered import Lowered, describe


class Format(Enum):
    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"
    JSON = "json"


def explain(plan: Plan | Lowered, format: Format | str = Format.TEXT) -> str:  # noqa: A002
    """A plan and its lowered program as one string that ends with a newline.

    Equal plans give equal texts. A lowered plan of a live engine adds entries and work so far.
    Raises ``ValueError`` for an unknown format.
    """
    writers: dict[Format, Callable[[Lowered], str]] = {
        Format.TEXT: explain_text,
        Format.MERMAID: explain_mermaid,
        Format.SVG: explain_svg,
        Format.JSON: explain_json,
    }
    write = writers[Format(format)]
    return write(describe(plan) if isinstance(plan, Plan) else plan)
