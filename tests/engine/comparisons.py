"""Random queries that join by comparison."""

from __future__ import annotations

from random import Random

#: Bodies in which ``?v``, ``?w`` and sometimes ``?u`` are values of different atoms.
BODIES = [
    "?x <u:p> ?v . ?y <u:p> ?w",
    "?x <u:p> ?v . ?y <u:q> ?w",
    "?x <u:p> ?v . ?x <u:p> ?w",
    "?x <u:q> ?y . ?x <u:p> ?v . ?y <u:p> ?w",
    "?x <u:p> ?v . ?x <u:q> ?y . ?z <u:p> ?w",
    "<u:a> <u:p> ?v . ?y <u:p> ?w",
    "<u:a> <u:p> ?v . <u:b> <u:p> ?w",
    "?x <u:p> ?v . ?y <u:p> ?w . ?z <u:p> ?u",
    "?x <u:p> ?v . ?x <u:p> ?w . ?y <u:p> ?u",
    "?x ?r ?v . ?y <u:p> ?w",
    "?x <u:p> ?v . ?x <u:p> ?v . ?y <u:p> ?w . ?y <u:q> ?z",
    "?x <u:p> ?v VALUES ?w { 0 1 2.5 'x' }",
    "?x <u:p> ?v . ?x <u:q> ?x . ?y <u:p> ?w",
]
#: ``{}`` are variables.
COMPARISONS = [
    "{} < {}", "{} <= {}", "{} > {}", "{} >= {}", "{} - {} <= 2", "{} < {} + 1", "{} >= {} - 0.5",
    "2 * {} > {}", "{} + {} < 3", "{} = {} + 1", "{} = -{}", "{} <= {} * 1.0e0", "-{} < 1 - {}",
    "{} < {} + '0.5'^^<http://www.w3.org/2001/XMLSchema#float>", "{} != {}", "{} = {}",
    "0 <= {} - {}", "3 * ({} - 1) >= 2 * {}",
]  # fmt: skip


def draw_query(random: Random) -> str:
    """A body with one to three comparisons, and some of its variables."""
    body = random.choice(BODIES)
    words = body.replace("{", " ").replace("}", " ").split()
    names = sorted({word for word in words if word.startswith("?")})
    values = [name for name in names if name in ("?v", "?w", "?u")]
    filters = []
    for number in range(random.choice([1, 1, 2, 3])):
        pair = ["?v", "?w"] if number == 0 else random.sample(values, 2)
        random.shuffle(pair)
        filters.append(random.choice(COMPARISONS).format(*pair))
    joined = f"FILTER({' && '.join(filters)})"
    shown = random.sample(names, random.randint(1, len(names)))
    columns = random.choice([" ".join(names), " ".join(shown), "*", "(COUNT(*) AS ?n)"])
    distinct = "DISTINCT " if random.random() < 0.15 and "COUNT" not in columns else ""
    return f"SELECT {distinct}{columns} {{ {body} {joined} }}"
