"""Parameters of requests: known names only, one value each."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qsl

from triegs.server.problems import Problem

FLAGS = {"true": True, "1": True, "": True, "false": False, "0": False}


class Parameters:
    """The parameters of a query string. A misspelt one is refused, not ignored.

    >>> found = Parameters("limit=5&count", ["limit", "count", "offset"])
    >>> found.read_number("limit"), found.read_flag("count"), found.read_number("offset", 0)
    (5, True, 0)
    >>> Parameters("limits=5", ["limit", "offset"])
    Traceback (most recent call last):
    triegs.server.problems.Problem: there is no parameter 'limits'; this path has limit, offset
    """

    def __init__(self, text: str, known: Iterable[str], *, repeated: Iterable[str] = ()) -> None:
        names = [*known]
        self._values: dict[str, list[str]] = {}
        try:
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError:
            raise Problem(400, "invalid parameters", "they are not UTF-8, or too many") from None
        for name, value in pairs:
            if name not in names:
                has = f"this path has {', '.join(names)}" if names else "this path has none"
                raise Problem(
                    400, "unknown parameter", f"there is no parameter {name[:40]!r}; {has}"
                )
            self._values.setdefault(name, []).append(value)
        for name, values in self._values.items():
            if len(values) > 1 and name not in repeated:
                raise Problem(400, "repeated parameter", f"{name} is given twice")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str, default: str | None = None) -> str | None:
        found = self._values.get(name)
        return found[0] if found else default

    def read_list(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def read_flag(self, name: str, default: bool = False) -> bool:
        value = self.get(name)
        if value is None:
            return default
        if value.lower() not in FLAGS:
            raise Problem(400, "invalid parameter", f"{name} must be true or false")
        return FLAGS[value.lower()]

    def read_number(
        self, name: str, default: int | None = None, *, most: int = 1 << 53
    ) -> int | None:
        value = self.get(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdecimal() and len(value) < 20 and int(value) <= most):
            raise Problem(400, "invalid parameter", f"{name} must be a number from 0 to {most:,}")
        return int(value)

    def read_choice(self, name: str, choices: Iterable[str], default: str) -> str:
        value = self.get(name) or default
        known = [*choices]
        if value not in known:
            raise Problem(400, "invalid parameter", f"{name} must be {', '.join(known)}")
        return value
