"""The report's running example: two events state one reply, a like arrives, one event expires."""

from __future__ import annotations

from triegs.testing import tables

QUERY = """
PREFIX : <http://example.org/>
SELECT ?x ?y ?v ?z ?w
WHERE {
  ?v :hasCreator ?x .
  ?z :hasCreator ?y .
  ?v :hasReply   ?z .
  ?z :likedBy    ?w .
}
"""

EPOCHS = tables.read_epochs("""
    epoch | op | subject | predicate  | object
    0     | +  | tweet1  | hasCreator | Max
    0     | +  | tweet2  | hasCreator | Eva
    0     | +  | tweet1  | hasReply   | tweet2
    0     | +  | tweet1  | hasReply   | tweet2
    1     | +  | tweet2  | likedBy    | Mia
    2     | -  | tweet1  | hasReply   | tweet2
""")

ANSWERS = [
    {},
    tables.read_answers("""
        x   | y   | v      | z      | w   | ×
        Max | Eva | tweet1 | tweet2 | Mia | 2
    """),
    tables.read_answers("""
        x   | y   | v      | z      | w   | ×
        Max | Eva | tweet1 | tweet2 | Mia | 1
    """),
]
