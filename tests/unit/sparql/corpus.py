"""Valid queries of every supported shape, and random mutations of them."""

from __future__ import annotations

import random

from triegs.sparql.lexer import tokens

PROLOGUE = "PREFIX : <http://ex/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"

BODIES = [
    "SELECT * { ?s ?p ?o }",
    "ASK { :a :p :b }",
    "ASK WHERE { }",
    "SELECT DISTINCT ?x ?y WHERE { ?x :p ?y . ?y :p ?x . }",
    "SELECT REDUCED $x WHERE { $x a :C ; :p 1, 2.5, -3e0, +4, 'a', \"b\"@en-GB ; . }",
    "SELECT ?v { ?v :hasCreator ?x . ?z :hasCreator ?y . ?v :hasReply ?z . ?z :likedBy ?w }",
    "SELECT * { ?x :p [] . [] :q ?x . [ :r ?y ; :s [ :t ?z ] ] . _:b :p _:b }",
    "SELECT * { ?x :p (1 ?y [ :q ?z ] ()) . (1 2) :r ?w . (?a) }",
    "SELECT * { { ?x :p ?y } { ?y :q ?z FILTER(?z > 3) } . { } }",
    "SELECT ?x { ?x :p/^:q/(:r/:s) ?y ; ^(:p/:q) ?z ; a/:p ?w }",
    "SELECT ?x { ?x :p ?y FILTER(?y = 1 && (?y < 2 || !BOUND(?x)) && ?y IN (1, 2, 3)) }",
    "SELECT ?x { ?x :p ?y . FILTER(REGEX(STR(?y), '^a.*b$', \"i\")) FILTER isIRI(?x) }",
    "SELECT ?x { ?x :p ?y FILTER(?y NOT IN () || LANGMATCHES(LANG(?y), '*')) }",
    "SELECT ?x { ?x :p ?y FILTER(?y + 1 * 2 - 3 / -?y > +1 || ?y -1 = 0 || ?y+1=2) }",
    "SELECT ?x { ?x :p ?y FILTER(sameTerm(?x, ?y) || DATATYPE(?y) = xsd:integer) }",
    "SELECT ?x { ?x :p ?y FILTER(CONTAINS(?y, 'a') && STRSTARTS(?y, 'b') && STRENDS(?y, 'c')) }",
    "SELECT ?x { ?x :p ?y FILTER(isBlank(?x) || isLiteral(?y) || isNumeric(?y) || isURI(?y)) }",
    "SELECT * { VALUES ?x { :a 1 'x'@en true \"5\"^^xsd:byte } ?x :p ?y }",
    "SELECT * { ?x :p ?y VALUES (?x ?y) { (:a 1) (:b 2) } } LIMIT 10 OFFSET 5",
    "SELECT * { ?x :p ?y } OFFSET 5 LIMIT 10 VALUES (?z) { (1) (1) }",
    "SELECT * { ?x :p ?y } ORDER BY DESC(?y) ?x ASC(?y + 1) STR(?x) LIMIT 10 VALUES ?x { 1 }",
    "SELECT (COUNT(*) AS ?n) { ?x :p ?y }",
    "SELECT ?x (SUM(?y) AS ?s) { ?x :p ?y } GROUP BY ?x ORDER BY DESC(?s) COUNT(*) ?x OFFSET 2",
    "SELECT ?x (COUNT(?y) AS ?n) (SUM(DISTINCT ?y) AS ?s) { ?x :p ?y } GROUP BY ?x",
    "SELECT (AVG(?y) AS ?a) (MIN(?y) AS ?l) (MAX(?y) AS ?h) { ?x :p ?y } HAVING (COUNT(*) > 1)",
    "SELECT ?k (SUM(?y)/COUNT(*) AS ?m) { ?x :p ?y } GROUP BY (STR(?x) AS ?k) HAVING(?k != 'a')",
    "SELECT (COUNT(DISTINCT ?y) AS ?n) { ?x :p ?y } GROUP BY STR(?x) (?y + 1) ?x VALUES ?x { 1 }",
    "SELECT * { ?x :p '''a\n'b''', \"\"\"c\"d\"\"\", 'e\\n\\u0041', :a.b, :a\\,b, :%41 } # end",
    "BASE <http://base/a/> PREFIX p: <b#> SELECT * { <c> p:d <../e> , <#f> , <?g> }",
    'SELECT * { ?x :p true ; :q FALSE , 1.0 , .5 , 1e3 , "x"^^<http://ex/t> . }',
]

QUERIES = [PROLOGUE + body for body in BODIES]

WORDS = [[token.text for token in tokens(query)][:-1] for query in QUERIES]
_SPOILERS = r"""
OPTIONAL UNION MINUS BIND GRAPH EXISTS NOT FROM ORDER UNDEF SAMPLE COALESCE ASC AS << >> ^^ @ \ ' "
''' # ? $ & | ~ % _: : :: <> < > \u0041 \U0001F600 \uD800 <http://a/%> 1. .1 1e 1e+
999999999999999999999 a.b a.:b :a. _:a. ?a. @en- 'a'@ 'a'^^ (( )) {{ }} [[ ]] ;; ,, .. *+
"""
VOCABULARY = [
    *sorted({word for words in WORDS for word in words}),
    *_SPOILERS.split(),
    *"é\u0301\x00\x7f\ufeff\ufffe\U0001f600",
]


def mutate(words: list[str], fresh: list[str], source: random.Random) -> None:
    """Delete, repeat, swap, insert, replace or truncate, in place."""
    here, there = source.randrange(len(words) + 1), source.randrange(len(words) + 1)
    if not words or here == len(words) or there == len(words):
        words.insert(here, source.choice(fresh))
        return
    match source.randrange(6):
        case 0:
            del words[here]
        case 1:
            words.insert(here, words[there])
        case 2:
            words[here], words[there] = words[there], words[here]
        case 3:
            words.insert(here, source.choice(fresh))
        case 4:
            words[here] = source.choice(fresh)
        case 5:
            del words[here:]
