"""Replayable choices: a compilation is a function of its list of picks.

The elimination calls a `Chooser` wherever several moves are legal. A chooser follows a script;
beyond its end it picks the first option, or a random one if given a source of randomness. So every
compilation can be repeated, forced or varied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypeVar

from triegs.errors import PlanError

T = TypeVar("T")


class Chooser:
    """Picks by a script, and records each pick with the number of options.

    >>> chooser = Chooser([1])
    >>> chooser.pick("abc"), chooser.pick("de"), chooser.pick("f")
    ('b', 'd', 'f')
    >>> chooser.picks
    (1, 0)
    """

    def __init__(self, script: Sequence[int] = (), random: Random | None = None) -> None:
        self._script = script
        self._random = random
        self._trail: list[tuple[int, int]] = []

    def pick(self, options: Sequence[T], forced: T | None = None) -> T:
        """A single option is not recorded; a forced one is recorded but never varied."""
        if len(options) == 1:
            return options[0]
        step = len(self._trail)
        if forced is not None:
            pick = options.index(forced)
        elif step < len(self._script):
            pick = self._script[step]
        else:
            pick = self._random.randrange(len(options)) if self._random else 0
        if not 0 <= pick < len(options):
            raise PlanError(f"choice {step} is {pick}, but there are {len(options)} options")
        self._trail.append((pick, pick + 1 if forced is not None else len(options)))
        return options[pick]

    @property
    def picks(self) -> tuple[int, ...]:
        return tuple(pick for pick, _ in self._trail)

    def next_script(self) -> tuple[int, ...] | None:
        """The next script in depth-first order; None after the last one."""
        trail = list(self._trail)
        while trail:
            pick, options = trail.pop()
            if pick + 1 < options:
                return (*(p for p, _ in trail), pick + 1)
        return None


def run_all(build: Callable[[Chooser], T]) -> Iterator[tuple[tuple[int, ...], T]]:
    """Run `build` once for every complete list of picks, in depth-first order.

    >>> [result for _, result in run_all(lambda choose: choose.pick("ab") + choose.pick("cd"))]
    ['ac', 'ad', 'bc', 'bd']
    """
    script: tuple[int, ...] | None = ()
    while script is not None:
        chooser = Chooser(script)
        result = build(chooser)
        yield chooser.picks, result
        script = chooser.next_script()
