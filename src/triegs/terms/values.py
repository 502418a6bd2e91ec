"""Converts Python values, rdflib terms and pyoxigraph terms to N-Triples text and back.

**In.** The term has the digits of the value: ``Decimal("67.00")`` becomes ``"67.00"^^xsd:decimal``,
which equals the term in a file written that way; ``"67.0"`` is a different RDF term. Values without
a fixed number of digits use the shortest form: floats as in query arithmetic (``1.5E3``), times
without trailing zeros.

**Out.** In Python form, numbers, booleans, dates and times become Python values, whatever their
spelling; see `triegs.terms.lexical`. A string without language becomes a `Text`. Everything
else, including ill-typed literals, stays a term in N-Triples form.

Neither library is imported to recognize its terms: classes are identified by module and name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

import numpy as np

from triegs.errors import BadTerm
from triegs.terms.lexical import read_lexical
from triegs.terms.term import RDF_LANG_STRING, XSD, XSD_STRING, Kind, Text, iri, literal, parse_term

# Limit for Python Decimals: an exponent is cheap there, but xsd:decimal spells out each digit.
MOST_PLACES = 1 << 16


class TermForm(StrEnum):
    """The form of terms returned to the caller."""

    NTRIPLES = "ntriples"
    PYTHON = "python"
    RDFLIB = "rdflib"
    PYOXIGRAPH = "pyoxigraph"


def write_value(value: object) -> str:
    """A term in N-Triples form, perhaps not canonical; `BadTerm` if there is none.

    >>> write_value(True), write_value(Text("hi"))
    ('"true"^^<http://www.w3.org/2001/XMLSchema#boolean>', '"hi"')
    >>> write_value(None)
    Traceback (most recent call last):
    triegs.errors.BadTerm: a NoneType is not a term
    """
    kind = type(value)
    write = _WRITERS.get(kind)
    if write is None:
        write = _WRITERS[kind] = _choose_writer(kind)
    try:
        return write(value)
    except BadTerm:
        raise
    except ValueError as error:
        raise BadTerm(str(error)) from None


def read_value(term: str, form: TermForm) -> Any:
    """A canonical term in another form.

    >>> read_value('"05"^^<http://www.w3.org/2001/XMLSchema#integer>', TermForm.PYTHON)
    5
    >>> read_value('"five"^^<http://www.w3.org/2001/XMLSchema#integer>', TermForm.PYTHON)
    '"five"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    if form is TermForm.NTRIPLES:
        return term
    if form is TermForm.PYTHON:
        return _read_python(term)
    return _read_rdflib(term) if form is TermForm.RDFLIB else _read_pyoxigraph(term)


def write_double(value: float) -> str:
    """The shortest lexical form of a double.

    >>> write_double(1500.0), write_double(-math.inf), write_double(1e-7)
    ('1.5E3', '-INF', '1.0E-7')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"
    return _write_scientific(repr(value))


def _write_scientific(shortest: str) -> str:
    sign, digits, exponent = Decimal(shortest).as_tuple()
    written = "".join(map(str, digits)).rstrip("0") or "0"
    power = int(exponent) + len(digits) - 1 if written != "0" else 0
    return f"{'-' if sign else ''}{written[0]}.{written[1:] or '0'}E{power}"


def write_single(value: np.float32) -> str:
    """The lexical form of a single-precision number.

    >>> write_single(np.float32(0.1))
    '1.0E-1'
    """
    if not np.isfinite(value):
        return write_double(float(value))
    return _write_scientific(np.format_float_scientific(value, unique=True))


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise BadTerm(f"{value} is not an xsd:decimal")
    if not -MOST_PLACES <= value.adjusted() <= MOST_PLACES:
        raise BadTerm(f"{value:.3e} has too many digits for an xsd:decimal")
    return f"{value:f}"


def write_datetime(value: datetime) -> str:
    """The lexical form of a datetime: no trailing zeros, ``Z`` for UTC.

    >>> write_datetime(datetime.fromisoformat("2024-05-01T10:00:00.250000+00:00"))
    '2024-05-01T10:00:00.25Z'
    """
    if value != value:  # pandas NaT
        raise BadTerm(f"{value} is not an xsd:dateTime")
    offset = value.utcoffset()
    if offset is None:
        return trim_seconds(value.isoformat())
    if not is_zone(offset):
        try:
            value, offset = value.astimezone(UTC), timedelta(0)
        except OverflowError:
            raise BadTerm(f"an xsd:dateTime cannot have the zone {offset}") from None
    clock = trim_seconds(value.replace(tzinfo=None).isoformat())
    return clock + write_zone(offset // timedelta(seconds=1))


def is_zone(offset: timedelta) -> bool:
    """Whether XSD allows this offset; local mean times are off by seconds."""
    return not offset % timedelta(minutes=1) and abs(offset) <= timedelta(hours=14)


def trim_seconds(text: str) -> str:
    """
    >>> trim_seconds("10:00:00.250000"), trim_seconds("10:00:00.000")
    ('10:00:00.25', '10:00:00')
    """
    return text.rstrip("0").removesuffix(".") if "." in text else text


def write_zone(seconds: int) -> str:
    """
    >>> write_zone(0), write_zone(-5400)
    ('Z', '-01:30')
    """
    if seconds == 0:
        return "Z"
    hours, minutes = divmod(abs(seconds) // 60, 60)
    return f"{'-' if seconds < 0 else '+'}{hours:02}:{minutes:02}"


def _write_time(value: time) -> str:
    clock, offset = trim_seconds(value.replace(tzinfo=None).isoformat()), value.utcoffset()
    if offset is None:
        return clock
    if not is_zone(offset):
        raise BadTerm(f"an xsd:time cannot have the zone {offset}")
    return clock + write_zone(offset // timedelta(seconds=1))


def _write_datetime64(value: np.datetime64) -> str:
    if np.isnat(value):
        raise BadTerm("NaT is not an xsd:dateTime")
    text = pad_year(np.datetime_as_string(value))
    if "T" not in text:
        if text.count("-") - text.startswith("-") < 2:
            raise BadTerm(f"{text} is not an xsd:date")
        return literal(text, XSD + "date")
    return literal(trim_seconds(text + ":00:00"[3 * text.count(":") :]), XSD + "dateTime")


def pad_year(text: str) -> str:
    """Pad a NumPy date, whose negative years may have fewer than four digits.

    >>> pad_year("-22-01-01"), pad_year("2024-05-01")
    ('-0022-01-01', '2024-05-01')
    """
    if text[0] != "-":
        return text
    year, dash, rest = text[1:].partition("-")
    return f"-{year.zfill(4)}{dash}{rest}"


def _write_rdflib(value: Any) -> str:
    return literal(str(value), value.datatype or XSD_STRING, value.language or "")


def _refuse(kind: type) -> Callable[[Any], str]:
    def refuse(_: object) -> str:
        raise BadTerm(f"a {kind.__name__} is not a term")

    return refuse


_BY_NAME: dict[tuple[str, str], Callable[[Any], str]] = {
    ("rdflib", "URIRef"): lambda value: iri(str(value)),
    ("rdflib", "BNode"): lambda value: f"_:{value}",
    ("rdflib", "Literal"): _write_rdflib,
    ("rdflib", "Variable"): _refuse(type("Variable", (), {})),
    ("pyoxigraph", "NamedNode"): str,
    ("pyoxigraph", "BlankNode"): str,
    ("pyoxigraph", "Literal"): str,
}

# Most specific first: a bool is an int, a datetime is a date, an rdflib term is a str.
_BY_CLASS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (Text, literal),
    (str, str.__str__),
    (bool, lambda value: literal(str(value).lower(), XSD + "boolean")),
    (np.bool_, lambda value: literal(str(bool(value)).lower(), XSD + "boolean")),
    (int, lambda value: literal(int.__repr__(value), XSD + "integer")),
    (np.timedelta64, lambda value: _refuse(type(value))(value)),
    (np.integer, lambda value: literal(str(int(value)), XSD + "integer")),
    (float, lambda value: literal(write_double(float(value)), XSD + "double")),
    (np.float32, lambda value: literal(write_single(value), XSD + "float")),
    (np.float16, lambda value: literal(write_single(np.float32(value)), XSD + "float")),
    (np.datetime64, _write_datetime64),
    (Decimal, lambda value: literal(_write_decimal(value), XSD + "decimal")),
    (datetime, lambda value: literal(write_datetime(value), XSD + "dateTime")),
    (date, lambda value: literal(date.isoformat(value), XSD + "date")),
    (time, lambda value: literal(_write_time(value), XSD + "time")),
)

_WRITERS: dict[type, Callable[[Any], str]] = {}


def _choose_writer(kind: type) -> Callable[[Any], str]:
    for base in kind.__mro__:
        library = base.__module__.partition(".")[0]
        if (library, base.__name__) in _BY_NAME:
            return _BY_NAME[library, base.__name__]
    for base, write in _BY_CLASS:
        if issubclass(kind, base):
            return write
    return _refuse(kind)


def _read_python(term: str) -> Any:
    parts = parse_term(term)
    if parts.datatype == XSD_STRING:
        return Text(parts.lexical)
    value = read_lexical(parts.lexical, parts.datatype)
    return term if value is None else value


def _read_rdflib(term: str) -> Any:
    import rdflib

    parts = parse_term(term)
    if parts.kind is Kind.IRI:
        return rdflib.URIRef(parts.lexical)
    if parts.kind is Kind.BLANK:
        return rdflib.BNode(parts.lexical)
    if parts.language:
        return rdflib.Literal(parts.lexical, lang=parts.language)
    if parts.datatype == XSD_STRING:
        return rdflib.Literal(parts.lexical)
    datatype = rdflib.URIRef(parts.datatype)
    return rdflib.Literal(parts.lexical, datatype=datatype, normalize=False)


def _read_pyoxigraph(term: str) -> Any:
    import pyoxigraph

    parts = parse_term(term)
    if parts.kind is Kind.IRI:
        return pyoxigraph.NamedNode(parts.lexical)
    if parts.kind is Kind.BLANK:
        return pyoxigraph.BlankNode(parts.lexical)
    if parts.language:
        return pyoxigraph.Literal(parts.lexical, language=parts.language)
    if parts.datatype in (XSD_STRING, RDF_LANG_STRING):
        return pyoxigraph.Literal(parts.lexical)
    datatype = pyoxigraph.NamedNode(parts.datatype)
    return pyoxigraph.Literal(parts.lexical, datatype=datatype)
