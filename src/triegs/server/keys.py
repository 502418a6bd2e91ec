"""Idempotency keys: a request that is sent again counts once, also after a crash.

The key of a request is noted with the epoch that contains its events (`Engine.note`), so the log
has both or neither. Values cannot be removed from a log, so keys take the places of a ring: the
newest `size` are remembered. What the engine refused is known only afterwards; it is noted with the
next change, and is null if the process dies before that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from triegs.engine import Engine

PREFIX = "server key "


class Key(NamedTuple):
    """The key of a request, and a digest of what it sent."""

    name: str
    digest: str


class Keys:
    """The newest keys of an engine and the outcomes of their requests. For the updater's thread."""

    def __init__(self, engine: Engine, size: int) -> None:
        self._engine = engine
        self._size = size
        self._places: dict[int, str] = {}
        #: By key: its place, the digest, and the outcome.
        self._known: dict[str, tuple[int, str, dict[str, Any]]] = {}
        #: Outcomes that the log does not have yet.
        self._unwritten: dict[str, Any] = {}
        self._next = 0
        for name, value in engine.positions.items():
            if name.startswith(PREFIX):
                place = int(name.removeprefix(PREFIX))
                self._set(place, value["key"], value["digest"], value["outcome"])
                self._next = max(self._next, value["number"] + 1)

    def find(self, key: Key) -> tuple[str, dict[str, Any]] | None:
        """The digest and the outcome of a key; None if it is new."""
        found = self._known.get(key.name)
        return None if found is None else found[1:]

    def note(self, given: list[tuple[Key, dict[str, Any]]]) -> None:
        """Note keys with the next change, and what is not written yet."""
        notes = dict(self._unwritten)
        for offset, (key, outcome) in enumerate(given):
            notes.update(self._write(self._next + offset, key, outcome))
        if notes:
            self._engine.note(notes)

    def add(self, given: list[tuple[Key, dict[str, Any]]]) -> None:
        """The change was made, with these outcomes."""
        self._unwritten = {}
        for key, outcome in given:
            self._unwritten.update(self._write(self._next, key, outcome))
            self._set(self._next % self._size, key.name, key.digest, outcome)
            self._next += 1

    def flush(self) -> None:
        """Write what is not written yet."""
        if self._unwritten:
            self._engine.note(self._unwritten, now=True)
            self._unwritten = {}

    def _write(self, number: int, key: Key, outcome: dict[str, Any]) -> dict[str, Any]:
        value = {"number": number, "key": key.name, "digest": key.digest, "outcome": outcome}
        return {f"{PREFIX}{number % self._size}": value}

    def _set(self, place: int, name: str, digest: str, outcome: dict[str, Any]) -> None:
        before = self._places.get(place)
        if before is not None:
            self._known.pop(before, None)
        self._places[place] = name
        self._known[name] = (place, digest, outcome)
