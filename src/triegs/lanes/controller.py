"""Picks the form of the next epochs by what was measured: no model of costs decides.

Every candidate runs some real epochs, in turns, so that no form has a slow stretch of the machine
to itself. Then the best one stays until the costs of lanes have moved or many epochs have passed,
and all are measured again. No epoch is wasted: measuring is running.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from triegs.lanes.schedule import Form, Schedule, list_candidates, make_schedule

TRIALS = 6  # epochs of each candidate, of which the first does not count
LASTING = 2_048  # epochs until everything is measured again
MOVED = 0.1  # of all cost: by how much a lane's share moves before that


class Controller:
    """Chooses a schedule for each epoch of `count` lanes on `threads` threads.

    The goal is throughput, the least median time per unit of work, or with `latency_s` a bound for
    each epoch: then the candidates whose slowest trial is within it compete for throughput, and if
    there is none, the one with the best slowest trial wins. A `form` other than None is not
    questioned.

    >>> controller = Controller(4, 2)
    >>> while controller.is_measuring:
    ...     form = controller.choose([4.0, 1.0, 1.0, 1.0]).form
    ...     controller.note(1.0 if form is Form.INLINE else 2.0)
    >>> controller.form
    <Form.INLINE: 'inline'>
    >>> controller.why
    'the least median time per update of 4 forms'
    """

    def __init__(
        self, count: int, threads: int, form: Form | None = None, latency_s: float | None = None
    ) -> None:
        self.threads = threads
        self.latency_s = latency_s
        self.form = form
        self.why = "" if form is None else "given"
        #: Seconds per unit of work, and of the slowest epoch, by form.
        self.measured: dict[Form, tuple[float, float]] = {}
        self._candidates = list_candidates(count, threads) if form is None else (form,)
        self._is_fixed = form is not None
        self._count = count
        self._samples: dict[Form, list[tuple[float, float]]] = {}
        self._schedule: Schedule | None = None
        self._decided: tuple[float, ...] = ()
        self._epochs = 0
        if len(self._candidates) == 1 and form is None:
            self.form, self.why = self._candidates[0], "the only form on one thread"
            self._is_fixed = True

    @property
    def is_measuring(self) -> bool:
        return self.form is None

    def restart(self) -> None:
        """The lanes have changed: measure again."""
        if not self._is_fixed:
            self.form, self._samples, self._epochs = None, {}, 0
        self._schedule = None

    def choose(self, costs: Sequence[float]) -> Schedule:
        """The schedule of the next epoch, by the lanes' costs so far. Always followed by `note`."""
        if self.form is not None and not self._is_fixed and self._has_moved(costs):
            self.restart()
        form = self.form or self._find_next()
        if self._schedule is None or self._schedule.form is not form or self._has_moved(costs):
            self._schedule = make_schedule(form, costs, self.threads)
            self._decided = share(costs)
        return self._schedule

    def note(self, seconds: float, units: int = 1) -> None:
        """Note the time of an epoch with that many units of work, such as updates."""
        self._epochs += 1
        if self._is_fixed:
            return
        if self.form is not None:
            if self._epochs >= LASTING:
                self.restart()
            return
        self._samples.setdefault(self._find_next(), []).append((seconds, max(1, units)))
        if min(len(self._samples.get(form, ())) for form in self._candidates) >= TRIALS:
            self._decide()

    def describe(self) -> dict[str, Any]:
        """For `triegs.Lanes.metrics`."""
        schedule = self._schedule
        return {
            "form": None if self.form is None else self.form.value,
            "why": self.why or "being measured",
            "goal": "throughput" if self.latency_s is None else f"latency {self.latency_s} s",
            "threads": self.threads,
            "inline": [] if schedule is None else [list(lanes) for lanes in schedule.inline],
            "pooled": [] if schedule is None else list(schedule.pooled),
            "pool_workers": 0 if schedule is None else schedule.workers,
            "measured": {
                form.value: {"unit_s": unit, "slowest_s": slowest}
                for form, (unit, slowest) in self.measured.items()
            },
        }

    def _find_next(self) -> Form:
        """The candidate with the fewest trials, in turn."""
        return min(self._candidates, key=lambda form: len(self._samples.get(form, ())))

    def _has_moved(self, costs: Sequence[float]) -> bool:
        pairs = zip(share(costs), self._decided or share(costs), strict=True)
        return any(abs(now - then) > MOVED for now, then in pairs)

    def _decide(self) -> None:
        measured = {
            form: (
                median(seconds / units for seconds, units in samples[1:]),
                max(seconds for seconds, _ in samples[1:]),
            )
            for form, samples in self._samples.items()
        }
        bound = self.latency_s
        within = [form for form in measured if bound is None or measured[form][1] <= bound]
        if within:
            self.form = min(within, key=lambda form: measured[form][0])
            self.why = f"the least median time per update of {len(within)} forms"
            if bound is not None:
                self.why += f" whose slowest trial was within {bound} s"
        else:
            self.form = min(measured, key=lambda form: measured[form][1])
            self.why = f"no form was within {bound} s; this one had the best slowest trial"
        self.measured, self._samples, self._epochs = measured, {}, 0


def share(costs: Sequence[float]) -> tuple[float, ...]:
    """The part of each in the sum; equal parts of nothing.

    >>> share([1.0, 3.0]), share([0.0, 0.0])
    ((0.25, 0.75), (0.5, 0.5))
    """
    total = sum(costs)
    if not total:
        return tuple(1 / len(costs) for _ in costs)
    return tuple(cost / total for cost in costs)
