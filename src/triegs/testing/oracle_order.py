"""The order of terms for the oracle: by rdflib's values, and nothing of what it judges."""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import rdflib
from rdflib import XSD

NUMBERS = (XSD.integer, XSD.decimal, XSD.float, XSD.double)


def order_key(value: Any) -> tuple[Any, ...]:
    """Unbound (None), blank nodes, IRIs, then literals: NaN, numbers by exact value, dates, times,
    strings, strings with a language, booleans, others.

    >>> order_key(rdflib.Literal(2)) < order_key(rdflib.Literal(10)) < order_key(rdflib.Literal(""))
    True
    """
    if value is None:
        return (0,)
    if isinstance(value, rdflib.URIRef):
        return 2, str(value)
    if not isinstance(value, rdflib.Literal):
        return 1, str(value).removeprefix("_:")
    exact, kind, text = value.value, value.datatype, str(value)
    if kind in NUMBERS and exact is not None:
        if kind == XSD.float:
            exact = struct.unpack("f", struct.pack("f", exact))[0]
        if exact != exact:
            return (3,)
        return 4, exact if exact in (math.inf, -math.inf) else Fraction(exact)
    if kind == XSD.date and exact is not None:
        return 5, datetime(exact.year, exact.month, exact.day, tzinfo=UTC)
    if kind == XSD.dateTime and exact is not None:
        return 6, exact.replace(tzinfo=exact.tzinfo or UTC)
    if value.language:
        return 8, value.language, text
    if kind in (None, XSD.string):
        return 7, text
    if kind == XSD.boolean and exact is not None:
        return 9, exact
    return 10, str(kind), text
