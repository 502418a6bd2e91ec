"""Engines side by side on one stream: the same slides in turns, each question judged at the end."""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time

from bench.answers import check
from bench.questions import Question
from bench.subject import Engine, apply_table, read_table
from bench.timing import Samples, take_turns
from bench.window import Window
from triegs.workloads import Workload


class Lane:
    """One engine with some questions; `middles` has the epoch's seconds, turn by turn."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self.questions = questions
        self.engine = Engine("multigraph")
        self.queries = [self.engine.register(question.text) for question in questions]
        self.middles: list[float] = []

    def check(self, window: Window) -> None:
        """Raise `WrongAnswer` unless each question has the answers of the window."""
        edges = window.edges
        judged = {question.judge: question.judge(edges) for question in self.questions}
        for question, query in zip(self.questions, self.queries, strict=True):
            with query.snapshot() as snapshot:
                found = question.digest(read_table(snapshot, "python"))
            check(found, judged[question.judge], question.name)


#: Slides of a lane in one turn.
SLIDES = 4


def run_lanes(workload: Workload, lanes: Sequence[Lane], seconds: float) -> Window:
    """Load all lanes, let them take turns for so long, then judge them.

    Who begins changes from turn to turn: the last finds caches that others have warmed. The first
    turn compiles, and does not count.
    """
    window, stream = Window(workload), workload.slides()
    load = next(stream)
    window.apply(load)
    for lane in lanes:
        apply_table(lane.engine, load.table)
    for turn in take_turns(seconds, least=3):
        slides = [next(stream) for _ in range(SLIDES)]
        for slide in slides:
            window.apply(slide)
            _ = slide.table  # made before any clock runs
        first = turn % len(lanes)
        for lane in (*lanes[first:], *lanes[:first]):
            samples = Samples(process_time)
            for slide in slides:
                samples.time(apply_table, lane.engine, slide.table)
            if turn:
                lane.middles.append(samples.middle)
    for lane in lanes:
        lane.check(window)
    return window
