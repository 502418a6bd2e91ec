"""Universities in the shape of the LUBM benchmark: departments, staff, students, courses,
publications. Reasoning completes them: a query for professors finds those of every rank.

A block of events is a department, entity by entity, in the published proportions: about 100,000
triples for a university of 14 to 16 departments. The classes and properties have the names of the
benchmark, so that rules written for it apply; the schema is `university.ttl`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from triegs.workloads.draw import Numbers
from triegs.workloads.rows import Rows, number_inserts
from triegs.workloads.timed import Clock, TimedWorkload, WindowQuery

if TYPE_CHECKING:
    import pyarrow as pa

UB = "http://swat.cse.lehigh.edu/onto/univ-bench.owl#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DATA = "http://univ.example/"
PREFIX = f"PREFIX ub: <{UB}>\nPREFIX u: <{DATA}>\n"
SCHEMA_FILE = Path(__file__).with_suffix(".ttl")
#: A node is its kind, its department counted over all universities, and its number there.
KIND_SHIFT, DEPARTMENT_SHIFT = 48, 24
MOST_DEPARTMENTS = 32  # of a university
ALUMNI_OF = 1000  # universities that degrees are from

CLASSES = (
    "University", "Department", "ResearchGroup", "FullProfessor", "AssociateProfessor",
    "AssistantProfessor", "Lecturer", "UndergraduateStudent", "GraduateStudent", "Course",
    "GraduateCourse", "Publication", "TeachingAssistant", "ResearchAssistant",
)  # fmt: skip
PROPERTIES = (
    "type", "subOrganizationOf", "worksFor", "headOf", "memberOf", "undergraduateDegreeFrom",
    "mastersDegreeFrom", "doctoralDegreeFrom", "teacherOf", "takesCourse", "advisor",
    "teachingAssistantOf", "publicationAuthor", "name", "emailAddress", "telephone",
    "researchInterest",
)  # fmt: skip
_NUMBER_OF = {name: number for number, name in enumerate(PROPERTIES)}


class Kind(IntEnum):
    """The kinds of nodes: first the classes above, then what is no instance of them."""

    UNIVERSITY = 0
    DEPARTMENT = 1
    GROUP = 2
    FULL = 3
    ASSOCIATE = 4
    ASSISTANT = 5
    LECTURER = 6
    UNDERGRADUATE = 7
    GRADUATE = 8
    COURSE = 9
    GRADUATE_COURSE = 10
    PUBLICATION = 11
    CLASS = 20
    NAME = 21
    EMAIL = 22
    TELEPHONE = 23
    INTEREST = 24


#: Of each rank: how many a department has, and how many publications each writes.
FACULTY = {
    Kind.FULL: ((7, 10), (15, 20)),
    Kind.ASSOCIATE: ((10, 14), (10, 18)),
    Kind.ASSISTANT: ((8, 11), (5, 10)),
    Kind.LECTURER: ((5, 7), (0, 5)),
}
PROFESSORS = (Kind.FULL, Kind.ASSOCIATE, Kind.ASSISTANT)


class _Department:
    """Draws the triples of one department, as numbers."""

    def __init__(self, seed: int, university: int, number: int) -> None:
        self.university = university
        self.place = university * MOST_DEPARTMENTS + number
        self.random = np.random.default_rng([seed, self.place])
        self.triples: list[tuple[int, int, int]] = []

    def between(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def node(self, kind: Kind, number: int) -> int:
        return int(kind) << KIND_SHIFT | self.place << DEPARTMENT_SHIFT | number

    def state(self, subject: int, name: str, obj: int) -> None:
        self.triples.append((subject, _NUMBER_OF[name], obj))

    def classify(self, subject: int, kind: int) -> None:
        self.state(subject, "type", int(Kind.CLASS) << KIND_SHIFT | kind)

    def describe(self, person: int) -> None:
        """Name, address and telephone of a person; each names the person in a literal."""
        rest = person & ((1 << KIND_SHIFT) - 1)
        kind = person >> KIND_SHIFT
        for name, literal in (
            ("name", Kind.NAME), ("emailAddress", Kind.EMAIL), ("telephone", Kind.TELEPHONE)
        ):  # fmt: skip
            # The kind of the person takes four bits of the number.
            self.state(person, name, int(literal) << KIND_SHIFT | rest << 4 | kind)

    def draw_degree(self, person: int, name: str) -> None:
        chosen = self.between(0, ALUMNI_OF - 1)
        self.state(person, name, int(Kind.UNIVERSITY) << KIND_SHIFT | chosen << DEPARTMENT_SHIFT)

    def draw(self, is_first: bool) -> list[tuple[int, int, int]]:
        university = int(Kind.UNIVERSITY) << KIND_SHIFT | self.university << DEPARTMENT_SHIFT
        department = self.node(Kind.DEPARTMENT, 0)
        if is_first:
            self.classify(university, Kind.UNIVERSITY)
        self.classify(department, Kind.DEPARTMENT)
        self.state(department, "subOrganizationOf", university)
        for number in range(self.between(10, 20)):
            group = self.node(Kind.GROUP, number)
            self.classify(group, Kind.GROUP)
            self.state(group, "subOrganizationOf", department)
        faculty = self._draw_faculty(department)
        publications = self._draw_publications(faculty)
        self._draw_students(department, faculty, publications)
        return self.triples

    def _draw_faculty(self, department: int) -> list[int]:
        found: list[int] = []
        self.courses = self.graduate_courses = 0
        for kind, ((low, high), _) in FACULTY.items():
            for number in range(self.between(low, high)):
                person = self.node(kind, number)
                found.append(person)
                self.classify(person, kind)
                self.state(person, "worksFor", department)
                if kind is Kind.FULL and number == 0:
                    self.state(person, "headOf", department)
                for name in ("undergraduate", "masters", "doctoral"):
                    self.draw_degree(person, f"{name}DegreeFrom")
                self.describe(person)
                interest = int(Kind.INTEREST) << KIND_SHIFT | self.between(0, 29)
                self.state(person, "researchInterest", interest)
                for _ in range(self.between(1, 2)):
                    self._draw_course(person, Kind.COURSE, self.courses)
                    self.courses += 1
                for _ in range(self.between(1, 2)):
                    self._draw_course(person, Kind.GRADUATE_COURSE, self.graduate_courses)
                    self.graduate_courses += 1
        return found

    def _draw_course(self, teacher: int, kind: Kind, number: int) -> None:
        course = self.node(kind, number)
        self.classify(course, kind)
        rest = (self.place << DEPARTMENT_SHIFT | number) << 4 | int(kind)
        self.state(course, "name", int(Kind.NAME) << KIND_SHIFT | rest)
        self.state(teacher, "teacherOf", course)

    def _draw_publications(self, faculty: list[int]) -> int:
        number = 0
        for person in faculty:
            low, high = FACULTY[Kind(person >> KIND_SHIFT)][1]
            for _ in range(self.between(low, high)):
                paper = self.node(Kind.PUBLICATION, number)
                self.classify(paper, Kind.PUBLICATION)
                rest = (self.place << DEPARTMENT_SHIFT | number) << 4 | int(Kind.PUBLICATION)
                self.state(paper, "name", int(Kind.NAME) << KIND_SHIFT | rest)
                self.state(paper, "publicationAuthor", person)
                number += 1
        return number

    def _draw_students(self, department: int, faculty: list[int], publications: int) -> None:
        professors = [person for person in faculty if person >> KIND_SHIFT in PROFESSORS]
        for number in range(len(faculty) * self.between(8, 14)):
            student = self.node(Kind.UNDERGRADUATE, number)
            self.classify(student, Kind.UNDERGRADUATE)
            self.state(student, "memberOf", department)
            self.describe(student)
            self._take_courses(student, Kind.COURSE, self.courses, self.between(2, 4))
            if self.between(1, 5) == 1:
                self.state(student, "advisor", professors[self.between(0, len(professors) - 1)])
        for number in range(len(faculty) * self.between(3, 4)):
            student = self.node(Kind.GRADUATE, number)
            self.classify(student, Kind.GRADUATE)
            self.state(student, "memberOf", department)
            self.draw_degree(student, "undergraduateDegreeFrom")
            self.describe(student)
            self._take_courses(
                student, Kind.GRADUATE_COURSE, self.graduate_courses, self.between(1, 3)
            )
            self.state(student, "advisor", professors[self.between(0, len(professors) - 1)])
            if self.between(1, 5) == 1:
                self.classify(student, CLASSES.index("TeachingAssistant"))
                course = self.node(Kind.COURSE, self.between(0, self.courses - 1))
                self.state(student, "teachingAssistantOf", course)
            elif self.between(1, 3) == 1:
                self.classify(student, CLASSES.index("ResearchAssistant"))
            for _ in range(self.between(0, 2)):
                paper = self.node(Kind.PUBLICATION, self.between(0, publications - 1))
                self.state(paper, "publicationAuthor", student)

    def _take_courses(self, student: int, kind: Kind, courses: int, most: int) -> None:
        chosen = self.random.choice(courses, min(most, courses), replace=False)
        for number in chosen.tolist():
            self.state(student, "takesCourse", self.node(kind, number))


def draw(seed: int, clock: Clock) -> Iterator[Rows]:
    """One university after the other, a department at a time, without end."""
    place = university = 0
    while True:
        count = int(np.random.default_rng([seed, university, 1]).integers(14, 17))
        for number in range(count):
            triples = np.array(_Department(seed, university, number).draw(number == 0), np.int64)
            places = place + np.arange(len(triples))
            subjects, predicates, objects = triples.T
            yield number_inserts(place, clock.tick(places), subjects, predicates, objects)
            place += len(triples)
        university += 1


def spell_node(code: int) -> str:
    """
    >>> spell_node(int(Kind.FULL) << KIND_SHIFT | 33 << DEPARTMENT_SHIFT | 7)
    '<http://univ.example/u1/d1/FullProfessor7>'
    >>> spell_node(int(Kind.UNIVERSITY) << KIND_SHIFT | 2 << DEPARTMENT_SHIFT)
    '<http://univ.example/u2>'
    """
    kind, rest = code >> KIND_SHIFT, code & ((1 << KIND_SHIFT) - 1)
    if kind == Kind.CLASS:
        return f"<{UB}{CLASSES[rest]}>"
    if kind == Kind.INTEREST:
        return f'"Research{rest}"'
    literal = kind if kind in (Kind.NAME, Kind.EMAIL, Kind.TELEPHONE) else None
    if literal is not None:
        kind, rest = rest & 15, rest >> 4
    place, number = rest >> DEPARTMENT_SHIFT, rest & ((1 << DEPARTMENT_SHIFT) - 1)
    university, department = divmod(place, MOST_DEPARTMENTS)
    if literal == Kind.NAME:
        return f'"{CLASSES[kind]}{number}"'
    if literal == Kind.EMAIL:
        return f'"{CLASSES[kind]}{number}@d{department}.u{university}.example"'
    if literal == Kind.TELEPHONE:
        return f'"{place:03}-{kind:03}-{number:04}"'
    if kind == Kind.UNIVERSITY:
        return f"<{DATA}u{place}>"
    if kind == Kind.DEPARTMENT:
        return f"<{DATA}u{university}/d{department}>"
    return f"<{DATA}u{university}/d{department}/{CLASSES[kind]}{number}>"


def spell(codes: Numbers) -> pa.Array:
    """The terms of nodes."""
    import pyarrow as pa

    return pa.array(list(map(spell_node, codes.tolist())), pa.string())


def read_schema() -> tuple[tuple[str, str, str], ...]:
    """The triples of `university.ttl`.

    >>> read_schema()[0][2].rpartition("#")[2]
    'Person>'
    """
    prefixes: dict[str, str] = {}
    found: list[tuple[str, str, str]] = []
    for line in SCHEMA_FILE.read_text("utf-8").splitlines():
        if match := re.fullmatch(r"@prefix (\w*): <(.*)> \.", line):
            prefixes[match[1]] = match[2]
        elif match := re.fullmatch(r"(\w*):(\w+) (\w*):(\w+) (\w*):(\w+) \.", line):
            names = match.groups()
            s, p, o = (f"<{prefixes[names[at]]}{names[at + 1]}>" for at in (0, 2, 4))
            found.append((s, p, o))
    return tuple(found)


def _ask(number: int, meaning: str, pattern: str, plan_class: str) -> WindowQuery:
    names = list(dict.fromkeys(re.findall(r"\?[A-Z]\w*", pattern)))
    text = f"{PREFIX}SELECT {' '.join(names)} WHERE {{\n  {pattern}\n}}"
    return WindowQuery(f"lubm{number}", meaning, text, plan_class)


_COURSE = "<http://univ.example/u0/d0/GraduateCourse0>"
_TEACHER = "<http://univ.example/u0/d0/AssistantProfessor0>"
_FULL = "full-acyclic"
QUERIES = (
    _ask(1, "Graduates who take a course.",
         f"?X a ub:GraduateStudent . ?X ub:takesCourse {_COURSE}", _FULL),
    _ask(2, "Graduates of the university that their department belongs to.",
         "?X a ub:GraduateStudent . ?Y a ub:University . ?Z a ub:Department .\n"
         "  ?X ub:memberOf ?Z . ?Z ub:subOrganizationOf ?Y . ?X ub:undergraduateDegreeFrom ?Y",
         "cyclic"),
    _ask(3, "Publications of a professor.",
         f"?X a ub:Publication . ?X ub:publicationAuthor {_TEACHER}", _FULL),
    _ask(4, "Professors of a department, with their addresses.",
         "?X a ub:Professor . ?X ub:worksFor <http://univ.example/u0/d0> . ?X ub:name ?Name .\n"
         "  ?X ub:emailAddress ?Email . ?X ub:telephone ?Phone", _FULL),
    _ask(5, "Members of a department.",
         "?X a ub:Person . ?X ub:memberOf <http://univ.example/u0/d0>", _FULL),
    _ask(6, "All students.", "?X a ub:Student", _FULL),
    _ask(7, "Students of a teacher, with the courses.",
         f"?X a ub:Student . ?Y a ub:Course . ?X ub:takesCourse ?Y . {_TEACHER} ub:teacherOf ?Y",
         _FULL),
    _ask(8, "Students of a university, with their addresses.",
         "?X a ub:Student . ?Y a ub:Department . ?X ub:memberOf ?Y .\n"
         "  ?Y ub:subOrganizationOf <http://univ.example/u0> . ?X ub:emailAddress ?Email", _FULL),
    _ask(9, "Students who take a course of their advisor.",
         "?X a ub:Student . ?Y a ub:Faculty . ?Z a ub:Course .\n"
         "  ?X ub:advisor ?Y . ?Y ub:teacherOf ?Z . ?X ub:takesCourse ?Z", "cyclic"),
    _ask(10, "Students who take a course.",
         f"?X a ub:Student . ?X ub:takesCourse {_COURSE}", _FULL),
    _ask(11, "Research groups of a university.",
         "?X a ub:ResearchGroup . ?X ub:subOrganizationOf <http://univ.example/u0>", _FULL),
    _ask(12, "Chairs of departments of a university.",
         "?X a ub:Chair . ?Y a ub:Department . ?X ub:worksFor ?Y .\n"
         "  ?Y ub:subOrganizationOf <http://univ.example/u0>", _FULL),
    _ask(13, "Alumni of a university.",
         "?X a ub:Person . <http://univ.example/u0> ub:hasAlumnus ?X", _FULL),
    _ask(14, "All undergraduates.", "?X a ub:UndergraduateStudent", _FULL),
)  # fmt: skip

UNIVERSITY = TimedWorkload(
    "university",
    "departments, staff, students, courses and publications, for rules",
    "none",
    QUERIES,
    draw,
    tuple(f"<{RDF if name == 'type' else UB}{name}>" for name in PROPERTIES),
    spell,
    {"ub": UB, "u": DATA},
    static=read_schema(),
)
