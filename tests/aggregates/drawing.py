"""Random grouped queries, and the terms that they aggregate."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random

XSD = "http://www.w3.org/2001/XMLSchema#"
NODES = [f"<u:{name}>" for name in "abcd"]
Triple = tuple[str, str, str]

#: Bodies of every class: ``<u:p>`` has values of any kind, ``<u:q>`` connects nodes.
BODIES = [
    "?x <u:p> ?v",
    "?x <u:q> ?y . ?y <u:p> ?v",
    "?x <u:q> ?y . ?y <u:q> ?z . ?z <u:p> ?v",
    "?x <u:q> ?y . ?x <u:p> ?v . ?y <u:p> ?w",
    "?x <u:q> ?y . ?y <u:q> ?v . ?v <u:q> ?w . ?y <u:p> ?z",
    "?x <u:q> ?y . ?y <u:q> ?z . ?z <u:p> ?v . ?z <u:q> ?w . ?x <u:p> ?k",
    "?x <u:p> ?v . ?x <u:p> ?w",
    "?x <u:q> ?y . ?y <u:q> ?z . ?z <u:q> ?x . ?x <u:p> ?v",
    "?x <u:q> ?y . ?y <u:q> ?z . ?z <u:q> ?w . ?w <u:q> ?x",
    "?x <u:p> ?v . ?a <u:q> ?b",
    "<u:a> <u:p> ?v . ?x <u:q> ?y",
    "?x <u:p> ?v . ?y <u:p> ?v",
    "?x <u:p> ?v . ?x <u:p> ?v",
    "?x ?r ?v",
    "?x ?r ?y . ?y ?r ?v",
    "?x <u:q> ?x . ?x <u:p> ?v",
    "?x <u:p> 1 . ?x <u:q> ?y",
    "?x <u:q>/<u:p> ?v",
    "<u:a> <u:q> <u:b>",
]
#: Conditions and rows that go into a body; dropped if a variable of theirs is not in it.
EXTRAS = [
    "FILTER(?v > 0)",
    "FILTER(?v < ?w)",
    "FILTER(?x != ?y)",
    "FILTER(ISLITERAL(?v) && ?v != 1)",
    "FILTER(?v + ?w > 1)",
    "VALUES ?x { <u:a> <u:b> <u:b> }",
    "VALUES (?x ?v) { (<u:a> 1) (<u:b> 2.5) (<u:c> <u:a>) }",
    "VALUES ?k { 1 2.5 'k' }",
    "FILTER(false)",
]
FUNCTIONS = ["COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE"]
#: Keys that are expressions; ``{}`` is a variable.
KEYS = ["{} > 2", "{} + 1", "ISLITERAL({})", "DATATYPE({})", "STR({})", "{} = 1 || {} > 2"]
ARGUMENTS = ["{} + 1", "{} * {}", "{} - {}", "-{}", "{} / 3", "{} > 1", "STR({})", "1", "?nothing"]


def typed(lexical: object, datatype: str) -> str:
    return f'"{lexical}"^^<{XSD}{datatype}>'


INTEGERS = [
    *(typed(n, "integer") for n in (-3, -1, 0, 1, 2, 2, 5)),
    typed("007", "integer"), typed("-0", "integer"), typed(7, "byte"), typed(2, "unsignedShort"),
]  # fmt: skip
HUGE = [
    typed(n, "integer")
    for n in (2**63 - 1, -(2**63), 2**63, -(2**64), 10**20, -(10**20), 10**300, 3 - 10**300)
]
DECIMALS = [
    typed(text, "decimal")
    for text in ("0.5", "-0.5", "00.10", "2.", ".25", "-0.0", "1.123456789012345678901234567890",
                 "-0.00000000000000000000000000001", "99999999999999999999.999999999999999999999")
]  # fmt: skip
DOUBLES = [
    typed(text, "double")
    for text in (
        "0.1",
        "0.2",
        "1e0",
        "-2.5E0",
        "0",
        "-0.0E0",
        "4.9e-324",
        "1e-300",
        "1e16",
        "-1e16",
    )
]
EXTREMES = [
    typed(text, "double") for text in ("1.7e308", "-1.7e308", "1e308", "INF", "-INF", "NaN")
]
FLOATS = [
    typed(text, "float")
    for text in ("0.1", "0.75", "-0.0", "16777217", "3e38", "1.00000005960464477540", "1e-46",
                 "INF", "-INF", "NaN")
]  # fmt: skip
TIMES = [
    typed("2020-01-02T00:00:00Z", "dateTime"), typed("2020-01-01T23:30:00-05:00", "dateTime"),
    typed("2020-01-02T00:00:00", "dateTime"), typed("2020-01-02T24:00:00.5Z", "dateTime"),
    typed("2020-01-02", "date"), typed("2020-01-02+01:00", "date"), typed("-0044-03-15", "date"),
]  # fmt: skip
TEXTS = ['"x"', '"Z"', '""', '"x"@en', '"x"@de', '"10"', '"ß"', '"\\"q\\""']
OTHERS = [
    *NODES, typed("true", "boolean"), typed("0", "boolean"), typed("false", "boolean"),
    typed("1", "boolean"), '"b"^^<u:type>', '"a"^^<u:type>', typed("x", "integer"),
    typed("300", "byte"), typed("P1D", "duration"),
]  # fmt: skip
KINDS = {
    "integers": INTEGERS, "huge": HUGE, "decimals": DECIMALS, "doubles": DOUBLES,
    "extremes": EXTREMES, "floats": FLOATS, "times": TIMES, "texts": TEXTS, "others": OTHERS,
}  # fmt: skip


@dataclass
class Vocabulary:
    """The terms of one life: values of a few kinds, so that most groups have no error."""

    random: Random
    kinds: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.kinds:
            self.kinds = self.random.sample(list(KINDS), self.random.choice([1, 1, 2, 3, 9]))

    def draw_value(self) -> str:
        return self.random.choice(KINDS[self.random.choice(self.kinds)])

    def draw_triple(self) -> Triple:
        random = self.random
        if random.random() < 0.55:
            return random.choice(NODES), "<u:p>", self.draw_value()
        return random.choice(NODES), "<u:q>", random.choice(NODES[:3])


def names_in(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"\?\w+", text)))


def draw_body(random: Random) -> str:
    body = random.choice(BODIES)
    names = names_in(body)
    if random.random() < 0.4:
        extra = random.choice(EXTRAS)
        if set(names_in(extra)) <= {*names, "?k"}:
            body = f"{body} {extra}"
    return body


def draw_aggregate(random: Random, names: list[str]) -> str:
    function = random.choice(FUNCTIONS)
    if function == "COUNT" and random.random() < 0.3:
        return "COUNT(*)"
    likely = [*names, *(name for name in names if name in ("?v", "?w"))]
    argument = random.choice(likely) if likely else "1"
    if random.random() < 0.25:
        form = random.choice(ARGUMENTS)
        if likely or "{}" not in form:
            argument = re.sub(r"\{\}", lambda _: random.choice(likely), form)
    distinct = "DISTINCT " if random.random() < 0.3 else ""
    return f"{function}({distinct}{argument})"


def draw_query(random: Random) -> str:
    """A grouped query of any class, in the language that rdflib and pyoxigraph read too."""
    body = draw_body(random)
    names = names_in(body)
    keys = random.sample(names, random.randint(0, min(2, len(names))))
    shown = keys if random.random() < 0.8 else keys[:1]
    groups = list(keys)
    columns = list(shown)
    if names and random.random() < 0.2:
        expression = re.sub(r"\{\}", lambda _: random.choice(names), random.choice(KEYS))
        if random.random() < 0.7:
            groups.append(f"({expression} AS ?key)")
            columns.append("?key")
        else:
            groups.append(f"({expression})")
    for number in range(random.randint(1, 3)):
        expression = draw_aggregate(random, names)
        if random.random() < 0.25:
            operator = random.choice(["/", "+", "-", "*", ">", "="])
            other = random.choice([draw_aggregate(random, names), "2", *columns[: len(shown)]])
            expression = f"{expression} {operator} {other}"
        columns.append(f"({expression} AS ?n{number})")
    text = f"SELECT {'DISTINCT ' if random.random() < 0.15 else ''}{' '.join(columns)}"
    text += f" {{ {body} }}"
    text += f" GROUP BY {' '.join(groups)}" if groups else ""
    if random.random() < 0.25:
        bound = random.choice([1, 2, 0, "'m'", *shown])
        text += f" HAVING ({draw_aggregate(random, names)} {random.choice('><=')} {bound})"
    return text
