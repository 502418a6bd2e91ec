"""Python values, rdflib terms and pyoxigraph terms to N-Triples text and back.

Neither library is imported for its terms to be understood: a class is known by its module and its
name. Spelling of numbers is that of query arithmetic (``1.5E3`` for a double), so a value that came
in and a value that was calculated are one term.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

import numpy as np

from triegs.errors import BadTerm
from triegs.terms import RDF_LANG_STRING, XSD, XSD_STRING, Kind, Text, iri, literal, parse_term

# Of a Python Decimal: an exponent costs nothing there, and a digit each in xsd:decimal.
MOST_PLACES = 1 << 16


class TermForm(StrEnum):
    """How terms are given to the caller."""

    NTRIPLES = "ntriples"
    PYTHON = "python"
    RDFLIB = "rdflib"
    PYOXIGRAPH = "pyoxigraph"


def write_value(value: object) -> str:
    """A term in N-Triples form, perhaps not yet in its one spelling; `BadTerm` if there is none.

    >>> write_value(True), write_value(Text("hi"))
    ('"true"^^<http://www.w3.org/2001/XMLSchema#boolean>', '"hi"')
    >>> write_value(None)
    Traceback (most recent call last):
    triegs.errors.BadTerm: a NoneType is no term
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
    """A canonical term as a value of another form.

    A Python value stands only for a term that it would be written as: ``"05"`` as an integer, an
    IRI or a text with a language stay N-Triples strings, so nothing is lost on the way back.

    >>> read_value('"5"^^<http://www.w3.org/2001/XMLSchema#integer>', TermForm.PYTHON)
    5
    >>> read_value('"05"^^<http://www.w3.org/2001/XMLSchema#integer>', TermForm.PYTHON)
    '"05"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    if form is TermForm.NTRIPLES:
        return term
    if form is TermForm.PYTHON:
        return _read_python(term)
    return _read_rdflib(term) if form is TermForm.RDFLIB else _read_pyoxigraph(term)


def write_double(value: float) -> str:
    """The lexical form of a double, with the fewest digits that name it.

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
        raise BadTerm(f"{value} is no xsd:decimal")
    if not -MOST_PLACES <= value.adjusted() <= MOST_PLACES:
        raise BadTerm(f"an xsd:decimal is written out, which for {value:.3e} is too long")
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def write_datetime(value: datetime) -> str:
    """The lexical form of a time: no zeros behind the point, ``Z`` for a zone at UTC.

    >>> write_datetime(datetime.fromisoformat("2024-05-01T10:00:00.250000+00:00"))
    '2024-05-01T10:00:00.25Z'
    """
    offset = value.utcoffset()
    if offset is not None and offset % timedelta(minutes=1):
        raise BadTerm(f"an xsd:dateTime has a zone of whole minutes, not {offset}")
    return _trim_seconds(value.replace(tzinfo=None).isoformat()) + _write_zone(value.isoformat())


def _trim_seconds(text: str) -> str:
    return text.rstrip("0") if "." in text else text


def _write_zone(text: str) -> str:
    clock = text.rpartition("T")[2]
    for sign in "+-":
        if sign in clock:
            zone = sign + clock.partition(sign)[2]
            return "Z" if zone in ("+00:00", "-00:00") else zone
    return ""


def _write_time(value: time) -> str:
    return _trim_seconds(value.replace(tzinfo=None).isoformat()) + _write_zone(value.isoformat())


def _write_rdflib(value: Any) -> str:
    return literal(str(value), value.datatype or XSD_STRING, value.language or "")


def _refuse(kind: type) -> Callable[[Any], str]:
    def refuse(_: object) -> str:
        raise BadTerm(f"a {kind.__name__} is no term")

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

# Most special first: a bool is an int, a datetime is a date, an rdflib term is a str.
_BY_CLASS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (Text, literal),
    (str, str.__str__),
    (bool, lambda value: literal(str(value).lower(), XSD + "boolean")),
    (np.bool_, lambda value: literal(str(bool(value)).lower(), XSD + "boolean")),
    (int, lambda value: literal(int.__repr__(value), XSD + "integer")),
    (np.integer, lambda value: literal(str(int(value)), XSD + "integer")),
    (float, lambda value: literal(write_double(float(value)), XSD + "double")),
    (np.float32, lambda value: literal(write_single(value), XSD + "float")),
    (np.float16, lambda value: literal(write_single(np.float32(value)), XSD + "float")),
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


def _read_boolean(text: str) -> bool:
    return {"true": True, "false": False}[text]


_PYTHON: dict[str, Callable[[str], object]] = {
    XSD_STRING: Text,
    XSD + "integer": int,
    XSD + "double": lambda text: float(text.replace("INF", "inf")),
    XSD + "float": lambda text: np.float32(text.replace("INF", "inf")),
    XSD + "boolean": _read_boolean,
    XSD + "decimal": Decimal,
    XSD + "date": date.fromisoformat,
    XSD + "dateTime": datetime.fromisoformat,
    XSD + "time": time.fromisoformat,
}


def _read_python(term: str) -> Any:
    parts = parse_term(term)
    read = _PYTHON.get(parts.datatype)
    if read is None:
        return term
    try:
        value = read(parts.lexical)
        return value if write_value(value) == term else term
    except (ValueError, KeyError, InvalidOperation, OverflowError):
        return term


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
