"""Naming of rules, and recognition of bodies with symmetry."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from triegs.maintain.kernels.tables import COUNT
from triegs.maintain.model import Check, Input

MOST_NAMED = 200  # characters of a rule's name before it is shortened


def is_one_stream(inputs: Sequence[Input]) -> bool:
    """Whether all inputs are the pairs of one stream, with their counts."""
    first = inputs[0]
    return len(inputs) > 1 and all(
        each.operand == first.operand and each.operand.stream is not None and each.use == COUNT
        and each.operand.width == 2 and each.operand.listing is None for each in inputs
    )  # fmt: skip


def name_rule(
    inputs: Sequence[Input], head: Sequence[int], checks: Sequence[Check], is_listing: bool
) -> str:
    """The canonical name of a rule: its inputs with variables and uses, its head, its checks.

    Names of inputs are canonical, and a judge keeps its number while a view needs it.
    """
    words = []
    for each in inputs:
        source = each.operand.stream or each.operand.view
        assert source is not None
        use = "" if each.use == COUNT else " there"
        words.append(f"{source.name}{each.variables}{use}")
    tested = "".join(f" if judge {check.judge}{check.variables}" for check in checks)
    text = f"{'changes' if is_listing else 'rule'} {tuple(head)}: {' * '.join(words)}{tested}"
    if len(text) <= MOST_NAMED:
        return text
    return f"{text[:40]}… {blake2b(text.encode(), digest_size=16).hexdigest()}"
