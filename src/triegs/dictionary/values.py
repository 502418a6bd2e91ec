"""Python values, rdflib terms and pyoxigraph terms to N-Triples text and back.

**In.** The term of a value has the digits that the value has: ``Decimal("67.00")`` is
``"67.00"^^xsd:decimal``, and so names what a file wrote that way. ``"67.0"`` is another term, as
RDF says. A value that does not know how many digits it was written with has the fewest that name
it: a float those of query arithmetic (``1.5E3``), a time no zeros at the end of its seconds.

**Out.** In Python form every number, boolean, date and time is a Python value, however its term is
spelled; see `triegs.dictionary.lexical`. A text without language is a `Text`. Everything else, also
a literal that has no value, stays a term in N-Triples form.

Neither library is imported for its terms to be understood: a class is known by its module and its
name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

import numpy as np

from triegs.dictionary.lexical import read_lexical
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
    return f"{value:f}"


def write_datetime(value: datetime) -> str:
    """The lexical form of a time: no zeros behind the point, ``Z`` for a zone at UTC.

    >>> write_datetime(datetime.fromisoformat("2024-05-01T10:00:00.250000+00:00"))
    '2024-05-01T10:00:00.25Z'
    """
    if value != value:  # pandas has a datetime that is none
        raise BadTerm(f"{value} is no xsd:dateTime")
    offset = value.utcoffset()
    if offset is None:
        return trim_seconds(value.isoformat())
    if not is_zone(offset):
        try:
            value, offset = value.astimezone(UTC), timedelta(0)
        except OverflowError:
            raise BadTerm(f"an xsd:dateTime has no zone of {offset}") from None
    clock = trim_seconds(value.replace(tzinfo=None).isoformat())
    return clock + write_zone(offset // timedelta(seconds=1))


def is_zone(offset: timedelta) -> bool:
    """Whether XSD has a zone like that; zones before standard time are off by seconds."""
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
        raise BadTerm(f"an xsd:time has no zone of {offset}")
    return clock + write_zone(offset // timedelta(seconds=1))


def _write_datetime64(value: np.datetime64) -> str:
    if np.isnat(value):
        raise BadTerm("NaT is no xsd:dateTime")
    text = pad_year(np.datetime_as_string(value))
    if "T" not in text:
        if text.count("-") - text.startswith("-") < 2:
            raise BadTerm(f"{text} is no xsd:date")
        return literal(text, XSD + "date")
    return literal(trim_seconds(text + ":00:00"[3 * text.count(":") :]), XSD + "dateTime")


def pad_year(text: str) -> str:
    """A date of NumPy's, which writes years before 0 with fewer than four digits.

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
