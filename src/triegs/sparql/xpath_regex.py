r"""XPath regular expressions, which SPARQL's REGEX speaks, as Python ones.

The two languages share most of their syntax. This page goes over a pattern once, passes on what
both mean alike, rewrites what differs (``$``, ``.``, ``\i``, ``\c``, ``\p{..}``,
``[a-z-[aeiou]]``, flags), and rejects what only Python would understand (``(?=``, ``\b``).

>>> bool(compile_regex("^a.c$", "i").search("ABC"))
True
>>> bool(compile_regex(r"\p{Lu}", "").search("straße"))
False
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache, lru_cache

from triegs.sparql.values import ExpressionError

_FLAGS = {"s": re.DOTALL, "m": re.MULTILINE, "i": re.IGNORECASE}
_SINGLE = set("nrt\\|.?*+(){}-[]^$")
_CLASSES = {
    "s": r"\t\n\r ",
    "d": r"\d",
    "w": r"\w",
    "i": r"_:A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d"
    r"\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff",
}
_CLASSES["c"] = _CLASSES["i"] + r"\-.0-9\u00b7\u0300-\u036f\u203f-\u2040"
_CATEGORY = re.compile(r"\{(\^?)([A-Z][a-z]?)\}")
_QUANTITY = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_CATEGORY_LETTERS = "LMNPZSC"


@lru_cache(maxsize=1024)
def compile_regex(pattern: str, flags: str) -> re.Pattern[str]:
    """The compiled pattern; :class:`ExpressionError` if it or a flag is not XPath's."""
    if not set(flags) <= set("smixq"):
        raise ExpressionError(f"unknown regular expression flags {flags!r}")
    options = re.RegexFlag(0)
    for flag in set(flags) & set(_FLAGS):
        options |= _FLAGS[flag]
    if "q" in flags:
        translated = re.escape(pattern)
    else:
        translated = _Translation(pattern, flags).whole()
    try:
        return re.compile(translated, options)
    except (re.error, OverflowError, RecursionError) as problem:
        raise ExpressionError(f"bad regular expression: {problem}") from None


class _Translation:
    def __init__(self, pattern: str, flags: str) -> None:
        if "x" in flags:
            pattern = _without_spaces(pattern)
        self.pattern = pattern
        self.flags = flags
        self.at = 0

    def whole(self) -> str:
        pieces: list[str] = []
        while self.at < len(self.pattern):
            pieces.append(self._piece())
        return "".join(pieces)

    def _piece(self) -> str:
        character = self._take()
        if character == "\\":
            return self._escape(inside=False)
        if character == "[":
            return self._character_class()
        if character == "(":
            if self.pattern.startswith("?", self.at):
                if not self.pattern.startswith("?:", self.at):
                    raise ExpressionError("bad regular expression: only (?: may follow (")
                self.at += 2
                return "(?:"
            return "("
        if character == "{":
            quantity = _QUANTITY.match(self.pattern, self.at - 1)
            if quantity is None:
                raise ExpressionError("bad regular expression: { without a quantity")
            self.at = quantity.end()
            self._check_not_possessive()
            return quantity[0]
        if character in "}]":
            raise ExpressionError(f"bad regular expression: unmatched {character}")
        if character in "*+?":
            self._check_not_possessive()
        if character == "$":
            return "$" if "m" in self.flags else r"\Z"
        if character == "." and "s" not in self.flags:
            return r"[^\n\r]"
        return character if character in "^|)*+?." else re.escape(character)

    def _check_not_possessive(self) -> None:
        """``a++`` means something to Python alone."""
        if self.pattern.startswith("+", self.at):
            raise ExpressionError("bad regular expression: nothing to repeat")

    def _take(self) -> str:
        self.at += 1
        return self.pattern[self.at - 1]

    def _escape(self, *, inside: bool) -> str:
        """What follows a backslash; ``inside`` a character class no brackets may be added."""
        if self.at == len(self.pattern):
            raise ExpressionError("bad regular expression: it ends with a backslash")
        character = self._take()
        if character in _SINGLE:
            return "\\" + character
        if character.lower() in _CLASSES:
            negated = character.isupper()
            if negated and inside and character not in "DW":
                return _ranges_outside(_CLASSES[character.lower()])
            if character in "dwDW":
                return "\\" + character
            listed = _CLASSES[character.lower()]
            return listed if inside else f"[{'^' if negated else ''}{listed}]"
        if character in "pP":
            match = _CATEGORY.match(self.pattern, self.at)
            if match is None or match[2][0] not in _CATEGORY_LETTERS:
                raise ExpressionError(f"bad regular expression: unknown \\{character} category")
            self.at = match.end()
            negated = (character == "P") != bool(match[1])
            listed = _category_ranges(match[2], negated)
            return listed if inside else f"[{listed}]"
        if character in "123456789" and not inside:
            return f"(?:\\{character})"
        raise ExpressionError(f"bad regular expression: unknown escape \\{character}")

    def _character_class(self) -> str:
        pieces = ["["]
        if self.pattern.startswith("^", self.at):
            self.at += 1
            pieces.append("^")
        start = len(pieces)
        while self.at < len(self.pattern):
            character = self._take()
            if character == "]" and len(pieces) > start:
                return "".join([*pieces, "]"])
            if character == "[" or character == "]":
                raise ExpressionError("bad regular expression: bracket in a character class")
            if character == "\\":
                pieces.append(self._escape(inside=True))
            elif character == "-":
                if self.pattern.startswith("[", self.at) and len(pieces) > start:
                    return self._subtraction("".join([*pieces, "]"]))
                edge = len(pieces) == start or self.pattern.startswith("]", self.at)
                pieces.append(r"\-" if edge else "-")
            else:
                pieces.append(re.escape(character))
        raise ExpressionError("bad regular expression: a character class never ends")

    def _subtraction(self, left: str) -> str:
        """``[a-z-[aeiou]]``: a character of the left class that the right one does not hold."""
        self.at += 1
        right = self._character_class()
        if not self.pattern.startswith("]", self.at):
            raise ExpressionError("bad regular expression: a character class never ends")
        self.at += 1
        return f"(?:(?!{right}){left})"


def _without_spaces(pattern: str) -> str:
    """Flag x: white space counts only inside a character class."""
    kept: list[str] = []
    depth = 0
    escaped = False
    for character in pattern:
        if not escaped:
            depth += (character == "[") - (character == "]" and depth > 0)
        escaped = character == "\\" and not escaped
        if depth or character not in "\t\n\r ":
            kept.append(character)
    return "".join(kept)


@cache
def _code_points_by_category() -> dict[str, list[tuple[int, int]]]:
    ranges: dict[str, list[tuple[int, int]]] = {}
    previous, start = unicodedata.category("\0"), 0
    for code in range(1, sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category != previous:
            ranges.setdefault(previous, []).append((start, code - 1))
            previous, start = category, code
    ranges.setdefault(previous, []).append((start, sys.maxunicode))
    return ranges


@cache
def _category_ranges(name: str, negated: bool) -> str:
    """The inside of a character class for a Unicode category such as ``Lu`` or ``L``."""
    table = _code_points_by_category()
    chosen = [
        r
        for category, ranges in table.items()
        if category.startswith(name) != negated
        for r in ranges
    ]
    if not chosen:
        raise ExpressionError(f"bad regular expression: unknown category {name}")
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in sorted(chosen))


@cache
def _ranges_outside(listed: str) -> str:
    """The inside of a character class that holds exactly what another one does not."""
    inside = re.compile(f"[{listed}]")
    codes = [c for c in range(sys.maxunicode + 1) if not inside.match(chr(c))]
    ranges: list[tuple[int, int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
