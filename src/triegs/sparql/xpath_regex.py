r"""XPath regular expressions, as used by SPARQL's REGEX, matched in linear time.

A pattern is parsed by the grammar of XML Schema with XPath's additions (anchors, reluctant
quantifiers, flags) and translated to RE2, with every character class as ranges of code points. So
``\w``, ``\p{..}`` and case follow XPath, not RE2. Back-references, which need more than linear
time, are refused.

>>> compile_regex("^a.c$", "i").matches("ABC")
True
>>> compile_regex(r"^[\w-[\d_]]+$", "").matches("straße"), compile_regex("(a+)+$", "").matches("b")
(True, False)
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any, NamedTuple

from triegs.sparql.code_points import (
    EVERYTHING,
    LAST,
    Ranges,
    category,
    complement,
    subtract,
    union,
    with_variants,
)
from triegs.sparql.unicode_blocks import BLOCKS
from triegs.sparql.values import ExpressionError

#: RE2's limit of repetitions, nested ones multiplied.
MAX_REPEATS = 1000
#: The nesting limit of groups, and of class subtractions.
MAX_NESTING = 100
#: The most bytes of a compiled pattern, which bounds compilation to about a second.
_PROGRAM_BYTES = 3 << 20
#: The most characters of a pattern translated to RE2.
_WRITTEN = 4 << 20
#: Bytes for a pattern and RE2's cache while matching; fewer make it slower, not wrong.
_MATCHING_BYTES = 32 << 20

_SINGLE = {**{c: c for c in "\\|.?*+(){}-[]^$"}, "n": "\n", "r": "\r", "t": "\t"}
_QUANTITY = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_PROPERTY = re.compile(r"\{(?:Is([A-Za-z0-9-]+)|([LMNPZSC][a-z]?))\}")
_SPACE: Ranges = ((9, 10), (13, 13), (32, 32))
#: Marks an end of text that is not the end of a line in XPath; not a character, in no class.
_MARK = chr(LAST)
_MARKED: Ranges = ((LAST, LAST),)


def _ranges(text: str) -> Ranges:
    """``a-z`` and single characters, without escapes."""
    return union((ord(each[0]), ord(each[-1])) for each in text.split())


_NAME_START = _ranges(
    "_ : A-Z a-z \u00c0-\u00d6 \u00d8-\u00f6 \u00f8-\u02ff \u0370-\u037d \u037f-\u1fff "
    "\u200c-\u200d \u2070-\u218f \u2c00-\u2fef \u3001-\ud7ff \uf900-\ufdcf \ufdf0-\ufffd "
    "\U00010000-\U000effff"
)
_NAME = union(_NAME_START, _ranges("- . 0-9 \u00b7 \u0300-\u036f \u203f-\u2040"))


class Regex(NamedTuple):
    """A compiled pattern."""

    program: Any
    has_lines: bool

    def matches(self, text: str) -> bool:
        """Whether the pattern matches somewhere in the text. Cost: linear in the text."""
        try:
            if self.has_lines and text.endswith("\n"):
                # No line begins or ends after a final newline.
                return self._finds(text[:-1]) or self._finds(text + _MARK)
            return self._finds(text)
        except UnicodeEncodeError:
            raise ExpressionError("a lone surrogate is not a character") from None

    def _finds(self, text: str) -> bool:
        return self.program.search(text) is not None


@lru_cache(maxsize=128)
def compile_regex(pattern: str, flags: str) -> Regex:
    """The compiled pattern; :class:`ExpressionError` if it or a flag is invalid."""
    if not set(flags) <= set("smixq"):
        raise ExpressionError(f"unknown regular expression flags {flags!r}")
    translation = _Translation(pattern, flags)
    written = translation.quoted() if "q" in flags else translation.whole()
    has_lines = "m" in flags and translation.has_anchor
    _compile(written, _PROGRAM_BYTES)
    return Regex(_compile(written, _MATCHING_BYTES), has_lines)


def _compile(written: str, size: int) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = size
    try:
        return re2.compile(written, options)
    except re2.error as problem:
        reason = problem.args[0]
        reason = reason.decode() if isinstance(reason, bytes) else str(reason)
        if "too large" in reason:
            raise _too_large() from None
        if "repetition" in reason:
            raise _too_often() from None
        raise _bad(reason) from None


def _bad(reason: str) -> ExpressionError:
    return ExpressionError(f"bad regular expression: {reason}")


def _too_large() -> ExpressionError:
    return ExpressionError(
        "regular expression too large: avoid repeating classes such as \\w or \\p{L} often"
    )


def _short(number: str | None) -> str | None:
    if number and (len(number) > 4 or int(number) > MAX_REPEATS):
        raise _too_often()
    return number


def _too_often() -> ExpressionError:
    return ExpressionError(
        f"regular expression not supported: it repeats more than {MAX_REPEATS} times"
    )


class _Translation:
    def __init__(self, pattern: str, flags: str) -> None:
        self.pattern = _without_spaces(pattern) if "x" in flags and "q" not in flags else pattern
        self.ignores_case = "i" in flags
        self.has_lines = "m" in flags
        self.dot = EVERYTHING if "s" in flags else complement(((10, 10), (13, 13)))
        self.has_anchor = False
        self.at = 0

    def quoted(self) -> str:
        return "".join(self._character(character) for character in self.pattern)

    def whole(self) -> str:
        pieces: list[str] = []
        depth, room = 0, _WRITTEN
        may_repeat = False
        while self.at < len(self.pattern):
            character = self._take()
            if character in "*+?{":
                if not may_repeat:
                    raise _bad("nothing to repeat")
                pieces.append(self._quantifier(character))
                may_repeat = False
                continue
            may_repeat = character not in "(|"
            if character == "(":
                depth += 1
                if depth > MAX_NESTING:
                    raise _bad(f"groups nest deeper than {MAX_NESTING}")
                self._open()
                pieces.append("(?:")
            elif character == ")":
                depth -= 1
                if depth < 0:
                    raise _bad("unmatched )")
                pieces.append(")")
            else:
                pieces.append("|" if character == "|" else self._atom(character))
                room -= len(pieces[-1])
                if room < 0:
                    raise _too_large()
        if depth:
            raise _bad("unterminated group")
        return "".join(pieces)

    def _take(self) -> str:
        if self.at == len(self.pattern):
            raise _bad("unexpected end")
        self.at += 1
        return self.pattern[self.at - 1]

    def _next_is(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def _open(self) -> None:
        if self._next_is("?"):
            if not self._next_is("?:"):
                raise _bad("only (?: is allowed after (")
            self.at += 2

    def _quantifier(self, character: str) -> str:
        """``*``, ``+``, ``?`` or ``{n,m}``; a following ``?`` does not change the answer."""
        written = character
        if character == "{":
            quantity = _QUANTITY.match(self.pattern, self.at - 1)
            if quantity is None:
                raise _bad("invalid quantifier after {")
            self.at = quantity.end()
            numbers = [number and (number.lstrip("0") or "0") for number in quantity.group(1, 3)]
            least, most = (int(number) if number else None for number in map(_short, numbers))
            if most is not None and most < (least or 0):
                raise _bad(f"the bounds of {quantity[0]} are reversed")
            written = f"{{{least}{quantity[2] or ''}{'' if most is None else most}}}"
        if self._next_is("?"):
            self.at += 1
        return written

    def _atom(self, character: str) -> str:
        if character in "^$":
            self.has_anchor = True
            if self.has_lines:
                return f"(?m:{character})"
            return r"(?:\A)" if character == "^" else r"(?:\z)"
        if character == ".":
            return self._class(self.dot)
        if character == "[":
            return self._class(self._group(0))
        if character == "\\":
            escaped = self._take()
            if escaped in _SINGLE:
                return self._character(_SINGLE[escaped])
            if escaped in "0123456789":
                raise ExpressionError(
                    f"regular expression not supported: the back-reference \\{escaped}"
                )
            return self._class(self._escaped(escaped))
        if character in "}]":
            raise _bad(f"unmatched {character}")
        return self._character(character)

    def _character(self, character: str) -> str:
        code = ord(character)
        if not self.ignores_case:
            return f"\\x{{{code:x}}}"
        return self._class(with_variants(((code, code),)))

    def _class(self, ranges: Ranges) -> str:
        return _write_class(subtract(ranges, _MARKED) if self.has_lines else ranges)

    def _escaped(self, character: str) -> Ranges:
        """The characters of a multi-character escape."""
        if character in "pP":
            match = _PROPERTY.match(self.pattern, self.at)
            if match is None:
                raise _bad(f"\\{character} without a category or block in braces")
            self.at = match.end()
            block, name = match.groups()
            if block is not None and block not in BLOCKS:
                raise _bad(f"unknown block Is{block}")
            found = BLOCKS[block] if block is not None else category(name)
            if not found:
                raise _bad(f"unknown category {name}")
        else:
            found = _escape_ranges(character.lower())
            if not found:
                raise _bad(f"unknown escape \\{character}")
        return complement(found) if character.isupper() else found

    def _group(self, depth: int) -> Ranges:
        """The characters of a class, read from after its opening bracket to its closing one."""
        if depth > MAX_NESTING:
            raise _bad(f"classes nest deeper than {MAX_NESTING}")
        is_negated = self._next_is("^")
        self.at += is_negated
        start = self.at
        written: list[Ranges] = []
        others: list[Ranges] = []
        taken: Ranges = ()
        while not (self._next_is("]") and self.at > start):
            if self._next_is("-[") and self.at > start:
                self.at += 2
                taken = self._group(depth + 1)
                if not self._next_is("]"):
                    raise _bad("a class must end after a subtraction")
                break
            low = self._member(others)
            if low is None:
                continue
            if self._next_is("-") and not (self._next_is("-]") or self._next_is("-[")):
                self.at += 1
                high = self._member([])
                if high is None or ord(high) < ord(low):
                    raise _bad("invalid range in a class")
                written.append(((ord(low), ord(high)),))
            else:
                written.append(((ord(low), ord(low)),))
        self.at += 1
        found = union(*written)
        found = union(with_variants(found) if self.ignores_case else found, *others)
        return subtract(complement(found) if is_negated else found, taken)

    def _member(self, others: list[Ranges]) -> str | None:
        """One character of a class; a multi-character escape is added to `others` instead."""
        character = self._take()
        if character in "[]":
            raise _bad("a bracket in a class needs a backslash")
        if character != "\\":
            return character
        escaped = self._take()
        if escaped in _SINGLE:
            return _SINGLE[escaped]
        others.append(self._escaped(escaped))
        return None


@lru_cache(maxsize=64)
def _write_class(ranges: Ranges) -> str:
    if not ranges:
        return r"[^\x{0}-\x{10ffff}]"
    return "[" + "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges) + "]"


@cache
def _escape_ranges(letter: str) -> Ranges:
    if letter == "w":
        return complement(union(category("P"), category("Z"), category("C")))
    if letter == "d":
        return category("Nd")
    return {"s": _SPACE, "i": _NAME_START, "c": _NAME}.get(letter, ())


def _without_spaces(pattern: str) -> str:
    """Flag x: white space is significant only inside a character class."""
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
