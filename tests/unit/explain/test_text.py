"""The text for terminals: complete, and no wider than necessary."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from triegs.compiler import Plan, compile_query
from triegs.explain import Format, explain
from triegs.explain.lines import WIDTH, display_width, fold
from triegs.explain.notation import Notation
from triegs.explain.text import summarize
from triegs.explain.tree import draw_tree
from triegs.sparql.model import Atom, Form, Query


def too_wide(text: str) -> list[str]:
    """Lines beyond the edge that hold more than one long word."""
    found = []
    for line in text.splitlines():
        words = line.replace("│", " ").split()
        longest = max(map(display_width, words), default=0)
        if display_width(line) > WIDTH and longest < 40:
            found.append(line)
    return found


def test_fits_a_terminal(plan: Plan) -> None:
    assert too_wide(explain(plan)) == []
    assert too_wide(summarize(plan)) == []


def test_has_no_trailing_space(plan: Plan) -> None:
    assert [line for line in explain(plan).splitlines() if line != line.rstrip()] == []


def test_shows_every_rule_and_marginal(plan: Plan) -> None:
    notation = Notation(plan)
    text = re.sub(r"[│\s]+", "", explain(plan))
    for number, node in enumerate(plan.nodes):
        assert re.sub(r"\s+", "", notation.rule(node)) in text
        if number != plan.root:
            assert re.sub(r"\s+", "", notation.marginal_rule(node)) in text


def test_shows_every_warning_and_the_promise(plan: Plan) -> None:
    words = " ".join(explain(plan).split())
    for warning in plan.warnings:
        assert warning in words
    assert plan.promise in words


def test_names_resolve_to_full_iris(plan: Plan) -> None:
    text = explain(plan)
    for namespace in {namespace for _, namespace, _ in Notation(plan).names.legend()}:
        assert any(line.strip().endswith(namespace) for line in text.splitlines())


def test_running_example_in_mathematical_notation(running: Plan) -> None:
    assert "\n".join(draw_tree(Notation(running))) == (
        "V0(z) ← H2ᵖ(z) · V1ᵖ(z) · Lᵖ(z)\n"
        "├─ H2(z,y) ← hasCreator(z,y)         H2ᵖ(z) = Σ_y H2(z,y)\n"
        "├─ V1(v,z) ← hasReply(v,z) · Hᵖ(v)   V1ᵖ(z) = Σ_v V1(v,z)\n"
        "│  └─ H(v,x) ← hasCreator(v,x)       Hᵖ(v) = Σ_x H(v,x)\n"
        "└─ L(z,w) ← likedBy(z,w)             Lᵖ(z) = Σ_w L(z,w)"
    )


def test_filters_say_where_they_run(compiled) -> None:
    text = explain(compiled("filters"))
    assert "?n < 5 (inside the atom age(x,n), node A)" in text
    assert "?x != :me (inside the atom" in text
    assert "?n < ?m (inside join B1)" in text
    assert "1 < 2 (evaluated at compile time)" in text
    assert "?a != ?d (during enumeration)" in explain(compiled("enumerated filter"))


def test_what_follows_enumeration(compiled) -> None:
    text = explain(compiled("grouped"))
    assert "GROUP BY ?a" in text
    assert "columns: ?a (COUNT(DISTINCT ?b) AS ?n)" in text
    assert "HAVING COUNT(*) > 2" in text
    assert "LIMIT 10 OFFSET 3" in text
    assert "DISTINCT: every row once" in explain(compiled("distinct"))
    assert "ASK: true if" in explain(compiled("ask"))


def test_clashing_local_names_get_prefixes(compiled) -> None:
    text = explain(compiled("same local names"))
    assert "n1:p(a,b)" in text
    assert "n2:p(b,c)" in text
    assert "<urn:x:#>(c,d)" in text
    assert "  n1: <http://a/>" in text


def test_totals_name_what_is_kept(compiled) -> None:
    assert "scan the answers" in explain(compiled("running"))
    kept = explain(compiled("running", keep=["count", "slice"]))
    assert "count() and support() are kept" in kept
    assert "liveness + total count + position" in kept


def test_formats_by_value(running: Plan) -> None:
    assert explain(running, "text") == explain(running, Format.TEXT) == explain(running)


def test_a_long_word_has_its_own_line() -> None:
    assert fold(["a", "x" * 30, "b"], "- ", "  ", width=12) == ["- a", "  " + "x" * 30, "  b"]


@st.composite
def random_plans(draw: st.DrawFn) -> Plan:
    """Any pattern over a few variables, with any head."""
    names = [f"?v{i}" for i in range(6)]
    labels = [f"<http://example.org/label{i}>" for i in range(3)]
    term = st.sampled_from([*names, "<http://example.org/me>"])
    atom = st.builds(Atom, term, st.sampled_from([*labels, "?v0"]), term)
    atoms = tuple(draw(st.lists(atom, max_size=6)))
    bound = sorted({name for one in atoms for name in one.variables})
    head = draw(st.lists(st.sampled_from(bound), unique=True)) if bound else []
    return compile_query(Query(Form.SELECT, tuple(head), atoms))


@given(random_plans())
def test_any_plan_is_explained_in_every_format(plan: Plan) -> None:
    assert too_wide(explain(plan)) == []
    for output in Format:
        assert explain(plan, output).endswith("\n")
