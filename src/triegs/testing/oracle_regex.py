r"""XPath regular expressions by their definition, for the oracle: slow and short.

A pattern is parsed into nested functions. Each takes a text and a set of positions, and returns the
positions at which a match may continue. There is no automaton and no other engine behind it.

>>> matches("^[a-z-[aeiou]]+$", "bcd"), matches(r"^\w+$", "a_b"), matches("K", "\u212a", "i")
(True, False, True)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

Positions = set[int]
Matcher = Callable[[str, Positions], Positions]
Test = Callable[[str], bool]

#: The blocks that tests use.
BLOCKS = {
    "BasicLatin": (0x0000, 0x007F), "Latin-1Supplement": (0x0080, 0x00FF),
    "Greek": (0x0370, 0x03FF), "GreekandCoptic": (0x0370, 0x03FF), "Cyrillic": (0x0400, 0x04FF),
    "CurrencySymbols": (0x20A0, 0x20CF), "CJKUnifiedIdeographs": (0x4E00, 0x9FFF),
    "Emoticons": (0x1F600, 0x1F64F),
}  # fmt: skip
NAME_START = (
    "[:A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d"
    "\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff]"
)
NAME_MORE = "[-.0-9\u00b7\u0300-\u036f\u203f\u2040]"
ESCAPES: dict[str, Test] = {
    "s": lambda c: c in "\t\n\r ",
    "d": lambda c: unicodedata.category(c) == "Nd",
    "w": lambda c: unicodedata.category(c)[0] not in "PZC",
    "i": lambda c: re.match(NAME_START, c) is not None,
    "c": lambda c: re.match(f"{NAME_START}|{NAME_MORE}", c) is not None,
}
SINGLE = {"n": "\n", "r": "\r", "t": "\t"} | {c: c for c in "\\|.?*+(){}-[]^$"}


class BadPattern(ValueError):
    """Not an XPath pattern, or one with a back-reference."""


def matches(pattern: str, text: str, flags: str = "") -> bool:
    """Whether the pattern matches somewhere in the text."""
    if set(flags) - set("smixq"):
        raise BadPattern(flags)
    matcher = Reader(pattern, flags).read()
    return bool(matcher(text, set(range(len(text) + 1))))


class Reader:
    """Parses one pattern by the grammar, from left to right."""

    def __init__(self, pattern: str, flags: str) -> None:
        self.rest = pattern
        self.flags = flags

    def read(self) -> Matcher:
        if "q" in self.flags:
            return in_order([one(self.same(c)) for c in self.rest])
        found = self.alternatives()
        if self.rest:
            raise BadPattern(self.rest)
        return found

    def peek(self) -> str:
        """The next significant character."""
        if "x" in self.flags:
            self.rest = self.rest.lstrip("\t\n\r ")
        return self.rest[:1]

    def take(self) -> str:
        if not self.rest:
            raise BadPattern("too short")
        first, self.rest = self.rest[0], self.rest[1:]
        return first

    def alternatives(self) -> Matcher:
        branches = [self.branch()]
        while self.peek() == "|":
            self.take()
            branches.append(self.branch())
        return lambda text, positions: {p for each in branches for p in each(text, positions)}

    def branch(self) -> Matcher:
        matchers: list[Matcher] = []
        while self.peek() not in ("", "|", ")"):
            matchers.append(self.quantified(self.atom()))
        return in_order(matchers)

    def quantified(self, inner: Matcher) -> Matcher:
        bounds: tuple[int, int | None] | None = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(
            self.peek()
        )
        if bounds is not None:
            self.take()
        elif self.peek() == "{":
            found = re.match(r"\{(\d+)(,?)(\d*)\}", self.rest, re.ASCII)
            if found is None or (found[3] and not found[2]):
                raise BadPattern(self.rest)
            self.rest = self.rest[found.end() :]
            least = int(found[1])
            bounds = (least, int(found[3]) if found[3] else None if found[2] else least)
            if bounds[1] is not None and bounds[1] < least:
                raise BadPattern(found[0])
        if bounds is None:
            return inner
        if self.peek() == "?":
            self.take()  # does not change whether it matches
        return repeated(inner, *bounds)

    def atom(self) -> Matcher:
        character = self.take()
        if character == "(":
            if self.rest.startswith("?"):
                if not self.rest.startswith("?:"):
                    raise BadPattern(self.rest)
                self.rest = self.rest[2:]
            inner = self.alternatives()
            if self.peek() != ")":
                raise BadPattern("unterminated group")
            self.take()
            return inner
        if character == "^":
            return at(self.begins)
        if character == "$":
            return at(self.ends)
        if character == ".":
            return one(lambda c: "s" in self.flags or c not in "\n\r")
        if character == "[":
            return one(self.group())
        if character == "\\":
            return one(self.escape() or self.same(SINGLE[self.take()]))
        if character in "*+?{}]":
            raise BadPattern(character)
        return one(self.same(character))

    def begins(self, text: str, position: int) -> bool:
        after_newline = position > 0 and text[position - 1] == "\n" and position < len(text)
        return position == 0 or ("m" in self.flags and after_newline)

    def ends(self, text: str, position: int) -> bool:
        if "m" not in self.flags:
            return position == len(text)
        return text[position : position + 1] == "\n" or (
            position == len(text) and text[-1:] != "\n"
        )

    def same(self, character: str) -> Test:
        if "i" not in self.flags:
            return lambda c: c == character
        return lambda c: c.lower() == character.lower() or c.upper() == character.upper()

    def escape(self) -> Test | None:
        """A multi-character escape; None, without reading it, if it is a single character."""
        letter = self.rest[:1]
        if letter in SINGLE and letter:
            return None
        self.take()
        if letter in "pP":
            found = re.match(r"\{(?:Is([A-Za-z0-9-]+)|([LMNPZSC][a-z]?))\}", self.rest)
            if found is None or (found[1] is not None and found[1] not in BLOCKS):
                raise BadPattern(self.rest)
            self.rest = self.rest[found.end() :]
            block, name = found[1], found[2]
            if block is not None:
                low, high = BLOCKS[block]
                return lambda c: (low <= ord(c) <= high) == (letter == "p")
            return lambda c: unicodedata.category(c).startswith(name) == (letter == "p")
        if letter.lower() not in ESCAPES:
            raise BadPattern(letter)
        test = ESCAPES[letter.lower()]
        return test if letter.islower() else lambda c: not test(c)

    def group(self) -> Test:
        """A character class, after its opening bracket."""
        is_negated = self.rest.startswith("^")
        self.rest = self.rest[is_negated:]
        tests: list[Test] = []
        less: Test = lambda _: False  # noqa: E731
        while not (tests and self.rest.startswith("]")):
            if tests and self.rest.startswith("-["):
                self.rest = self.rest[2:]
                less = self.group()
                if not self.rest.startswith("]"):
                    raise BadPattern(self.rest)
                break
            tests.append(self.member())
        self.take()
        return lambda c: any(test(c) for test in tests) != is_negated and not less(c)

    def member(self) -> Test:
        low = self.take()
        if low in "[]":
            raise BadPattern(low)
        if low == "\\":
            several = self.escape()
            if several is not None:
                return several
            low = SINGLE[self.take()]
        if self.rest.startswith("-") and self.rest[1:2] not in ("]", "["):
            self.take()
            high = self.take()
            high = SINGLE.get(self.take(), "") if high == "\\" else high
            if not high or high < low:
                raise BadPattern(high)
            return self.between(low, high)
        return self.same(low)

    def between(self, low: str, high: str) -> Test:
        if "i" not in self.flags:
            return lambda c: low <= c <= high
        listed = [chr(code) for code in range(ord(low), ord(high) + 1)]
        lower, upper = {c.lower() for c in listed}, {c.upper() for c in listed}
        return lambda c: c.lower() in lower or c.upper() in upper


def one(test: Test) -> Matcher:
    """One character that passes a test."""
    return lambda text, positions: {p + 1 for p in positions if p < len(text) and test(text[p])}


def at(test: Callable[[str, int], bool]) -> Matcher:
    return lambda text, positions: {p for p in positions if test(text, p)}


def in_order(matchers: list[Matcher]) -> Matcher:
    def matcher(text: str, positions: Positions) -> Positions:
        for inner in matchers:
            positions = inner(text, positions)
        return positions

    return matcher


def repeated(inner: Matcher, least: int, most: int | None) -> Matcher:
    def matcher(text: str, positions: Positions) -> Positions:
        for _ in range(least):
            positions = inner(text, positions)
        found = set(positions)
        steps = 0
        while positions and (most is None or steps < most - least):
            positions = inner(text, positions) - found
            found |= positions
            steps += 1
        return found

    return matcher
