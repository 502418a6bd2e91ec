"""The judges of questions of every class know what the oracle knows, in whatever words."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest

from bench.answers import Digest, WrongAnswer
from bench.lanes import Lane, run_lanes
from bench.questions import Question, ask_path2
from bench.run import Settings
from bench.sections.classes import list_groups
from bench.sections.sharing import list_classes, list_shapes, mix_labels
from bench.window import Window
from triegs.testing.oracle import answers
from triegs.workloads import Workload, path2, path3, path5_prefix
from triegs.workloads.stream import name_iri

SIZES = Settings(window=256, slide=16, seed=2)  # the least that its fan-outs allow
INTEGER = '"{}"^^<http://www.w3.org/2001/XMLSchema#integer>'


def fill_window(workload: Workload, slides: int = 4) -> Window:
    window = Window(workload)
    for slide in islice(workload.slides(), slides):
        window.apply(slide)
    return window


def ask_oracle(question: Question, window: Window) -> Digest:
    updates = [
        ("+", INTEGER.format(s), name_iri(label), INTEGER.format(o))
        for label, (subjects, objects) in window.edges.items()
        for s, o in zip(subjects.tolist(), objects.tolist(), strict=True)
    ]
    found = answers(question.text, updates)
    rows = [(*map(read_term, row), count) for row, count in found.items()]
    names = [*(f"c{i}" for i in range(len(question.head))), "count"]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return question.digest(pa.table(dict(zip(names, map(list, columns), strict=True))))


def read_term(term: str | None) -> str | int:
    assert term is not None
    return term if term.startswith("<") else int(term.split('"')[1])


def check_judges(workload: Workload, questions: Sequence[Question]) -> None:
    window = fill_window(workload)
    for question in questions:
        expected = question.judge(window.edges)
        assert expected.total, question.name
        assert ask_oracle(question, window) == expected, question.name


def test_classes() -> None:
    for group in list_groups(SIZES):
        check_judges(group.workload, [group.plain, *group.others])


def test_a_hundred_queries() -> None:
    chance = random.Random(7)
    paths, mixed = path5_prefix(2, window=60, slide=6), mix_labels(path3(3, window=90, slide=9))
    shapes, classes = list_shapes(), list_classes(mixed.sources["A"].objects)
    assert len(shapes) == len(classes) == 10
    for workload, questions in ((paths, shapes), (mixed, classes)):
        check_judges(workload, questions)
        reworded = [question.reword(chance) for question in questions]
        assert all(a.text != b.text for a, b in zip(questions, reworded, strict=True))
        check_judges(workload, reworded)


def test_no_answer_is_a_digest_too() -> None:
    workload = mix_labels(path3(3, window=90, slide=9))
    window = fill_window(workload)
    none = {label: (np.zeros(0, np.int64), np.zeros(0, np.int64)) for label in window.edges}
    for question in list_classes(workload.sources["A"].objects):
        assert question.judge(none) == Digest(0, 0), question.name


def test_lanes_are_judged() -> None:
    workload = path2(3, window=120, slide=12)
    lane = Lane([ask_path2()])
    run_lanes(workload, [lane], 0)
    assert len(lane.middles) == 2
    wrong = Lane([replace(ask_path2("wrong"), judge=lambda _: Digest(1, 1))])
    with pytest.raises(WrongAnswer, match="wrong"):
        run_lanes(workload, [wrong], 0)
