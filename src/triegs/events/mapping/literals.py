"""Typed literals from cell texts. Invalid cells are reported; digits are kept as written.

As tables often write them, a time may have a space instead of ``T``, and ``True`` means ``true``.
Surrounding whitespace is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.events.mapping.encoding import find_bytes
from triegs.terms.columns import write_column
from triegs.terms.term import XSD, escape, parse_term
from triegs.terms.values import write_value

_UNSIGNED = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_DOUBLE = rf"^(?:[+-]?{_UNSIGNED}(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN)$"
_ZONE = r"(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
_DAY = r"-?[0-9]{4,}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
PATTERNS = {
    "integer": r"^[+-]?[0-9]+$",
    "decimal": rf"^[+-]?{_UNSIGNED}$",
    "double": _DOUBLE,
    "float": _DOUBLE,
    "boolean": r"^(?:true|false|1|0)$",
    "date": rf"^{_DAY}{_ZONE}$",
    "dateTime": rf"^{_DAY}T{_CLOCK}{_ZONE}$",
    "time": rf"^{_CLOCK}{_ZONE}$",
}
#: Arrow types whose values already have the datatype.
_NATIVE: dict[str, Callable[[Any], bool]] = {
    "double": pa.types.is_float64,
    "float": lambda kind: pa.types.is_float32(kind) or pa.types.is_float16(kind),
    "date": pa.types.is_date,
    "dateTime": pa.types.is_timestamp,
}
#: The Arrow type used to check that a date or time exists.
_READ_AS = {"date": pa.date32(), "dateTime": pa.timestamp("us"), "time": pa.timestamp("us")}
_CONTROL = "[\\x00-\\x1f\\x7f\ufffe\uffff]"


def quote(texts: Any, tail: str) -> Any:
    r"""Literals of texts; ``tail`` follows the closing quote.

    >>> quote(pa.array(['say "x"', "a\nb"]), "@en").to_pylist()
    ['"say \\"x\\""@en', '"a\\nb"@en']
    """
    present = find_bytes(texts)
    found = texts
    for sign, written in (("\\", "\\\\"), ('"', '\\"')):
        if present[ord(sign)]:
            found = pc.replace_substring(found, sign, written)
    if present[:32].any() or present[0x7F] or present[0xEF]:  # 0xEF starts U+FFFE
        control = pc.match_substring_regex(texts, _CONTROL).fill_null(False)
        rare = [escape(text) for text in texts.filter(control).to_pylist()]
        found = pc.replace_with_mask(found, control, pa.array(rare, found.type))
    return pc.binary_join_element_wise('"', found, '"' + tail, "")


def read_typed(values: Any, texts: Any, kind: str) -> tuple[Any, NDArray[np.bool_]]:
    """Literals of a type, and a mask of invalid ones; ``texts`` are the texts of the values.

    >>> literals, bad = read_typed(None, pa.array(["67.00", " 5 ", "5 €"]), "decimal")
    >>> literals.to_pylist()[0], bad.tolist()
    ('"67.00"^^<http://www.w3.org/2001/XMLSchema#decimal>', [False, False, True])
    """
    tail = f"^^<{XSD}{kind}>"
    if values is not None and kind in _NATIVE and _NATIVE[kind](values.type):
        written = write_column(to_utc(values))
        terms = [None if value is None else write_value(value) for value in written]
        return pa.array(terms, pa.string()), np.zeros(len(terms), np.bool_)
    trimmed = pc.utf8_trim_whitespace(texts)
    if kind == "boolean":
        trimmed = pc.utf8_lower(trimmed)
    elif kind == "dateTime":
        trimmed = pc.replace_substring_regex(trimmed, rf"^({_DAY}) ", r"\1T")
    elif values is not None and pa.types.is_floating(values.type):
        trimmed = _write_out(trimmed) if kind == "decimal" else _spell_special(trimmed)
    good = pc.match_substring_regex(trimmed, PATTERNS[kind]).fill_null(True)
    bad = ~good.to_numpy(zero_copy_only=False)
    if kind in _READ_AS:
        bad |= _find_impossible(trimmed, bad, kind)
    return quote(trimmed, tail), bad


def _write_out(texts: Any) -> Any:
    """Numbers without the exponent that Arrow may write: xsd:decimal has none."""
    short = pc.match_substring_regex(texts, "^-?[0-9.]+e").fill_null(False)
    if not pc.any(short).as_py():
        return texts
    written = [f"{Decimal(text):f}" for text in texts.filter(short).to_pylist()]
    return pc.replace_with_mask(texts, short, pa.array(written, texts.type))


def _spell_special(texts: Any) -> Any:
    """Numbers with the special values as XML Schema writes them, not as Arrow does."""
    return pc.replace_substring(pc.replace_substring(texts, "nan", "NaN"), "inf", "INF")


def _find_impossible(texts: Any, bad: NDArray[np.bool_], kind: str) -> NDArray[np.bool_]:
    """A mask of dates and times that do not exist, such as 30 February."""
    plain = pc.replace_substring_regex(texts, r"(?:Z|[+-][0-9]{2}:[0-9]{2})$", "")
    plain = pc.replace_substring_regex(plain, r"(\.[0-9]{6})[0-9]*$", r"\1")
    if kind == "time":
        plain = pc.binary_join_element_wise("2000-01-01T", plain, "")
    plain = pc.if_else(pa.array(bad), pa.scalar(None, plain.type), plain)
    found = np.zeros(len(bad), np.bool_)
    try:
        plain.cast(_READ_AS[kind])
    except pa.ArrowInvalid:
        read = {"date": date.fromisoformat, "time": datetime.fromisoformat}.get(
            kind, datetime.fromisoformat
        )
        for row, text in enumerate(plain.to_pylist()):
            if text is not None:
                try:
                    read(text)
                except ValueError:
                    found[row] = True
    return found


def to_utc(values: Any) -> Any:
    """Timestamps in UTC: the zone of an Arrow column is only a display setting."""
    kind = values.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return values.cast(pa.timestamp(kind.unit, "UTC"))
    return values


def write_texts(values: Any) -> Any:
    """The texts of distinct values; `TypeError` for an unsupported type.

    >>> write_texts(pa.array([5.0, 0.25])).to_pylist(), write_texts(pa.array([True])).to_pylist()
    (['5', '0.25'], ['true'])
    """
    kind = values.type
    if pa.types.is_string(kind):
        return values
    if pa.types.is_timestamp(kind):
        terms = [None if value is None else str(value) for value in write_column(to_utc(values))]
        return pa.array([term and parse_term(term).lexical for term in terms], pa.string())
    is_known = (
        pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind)
        or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)
    )  # fmt: skip
    if not is_known:
        raise TypeError(
            f"a {kind} column cannot be mapped; give strings, numbers, booleans, dates "
            "or timestamps"
        )
    return values.cast(pa.string())
