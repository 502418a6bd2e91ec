"""RULE: one table-driven step for every join. Nothing is compiled per query.

    out(head) = the sum over all other variables of the product of the inputs

is maintained by differences. The changed tuples of each input in turn are *seeds*; the inputs
before it are read in their current state, those after it in the last version. So every occurrence
of a relation is a seed once, and one edge may play several roles.

An input is a chain of words: its root, the set below its first column, and so on, down to its
count. A seed binds variables; *probes* follow the other inputs along these, from word to word. Each
*level* binds one more variable. Its *sources* are the inputs that contain the variable: a single
source is scanned, several are intersected, variable by variable, which makes the join worst-case
optimal. Each result is emitted with its weight. Emissions are sorted, summed by head, and only then
applied, so keys arrive in order and terms that cancel touch nothing.

A weight that does not fit becomes `TOO_LARGE`, and a fault only if it is emitted: a product with a
zero does not overflow.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, merged
from triegs.jit.words import (
    Words,
    load,
    prefetch,
    store,
)
from triegs.maintain.kernels.emissions import (
    add,
    emit,
    emit_next,
    merge_emissions,
    open_emissions,
    passes,
    rank_pairs,
    sort_emissions,
    subtract,
    weigh,
)
from triegs.maintain.kernels.intersection import (
    fetch_shared,
    follow,
    gather,
    open_walk,
    walk_on,
)
from triegs.maintain.kernels.output import apply_emissions, apply_sorted, fetch_set, request_sorted
from triegs.maintain.kernels.sort_keys import open_range, range_next
from triegs.maintain.kernels.tables import (
    BOTH,
    COUNT,
    D_ARITY,
    D_CHECKS,
    D_CHECKS_AT,
    D_FROM,
    D_LEVELS,
    D_LEVELS_AT,
    D_NUMBER,
    D_ORBIT,
    D_PROBES,
    D_PROBES_AT,
    D_REGS_AT,
    D_ROOTS,
    D_ROOTS_AT,
    D_SIDE,
    D_SLOT,
    D_USE,
    DELTA_WORDS,
    ENTRIES,
    ENTRY_WORDS,
    LEADS,
    LEVEL_CHECKS,
    LEVEL_CHECKS_AT,
    LEVEL_IS_COVERED,
    LEVEL_IS_SHOWN,
    LEVEL_REG,
    LEVEL_SOURCES,
    LEVEL_SOURCES_AT,
    LEVEL_WORDS,
    NOW,
    PROBE_IN,
    PROBE_IS_TRIE,
    PROBE_OUT,
    PROBE_REG,
    PROBE_USE,
    PROBE_WORDS,
    RANGED,
    ROOT_IS_CONSTANT,
    ROOT_IS_OLD,
    ROOT_SLOT,
    ROOT_USE,
    ROOT_WORD,
    ROOT_WORDS,
    RULE_ARITY,
    RULE_DELTAS,
    RULE_DELTAS_AT,
    RULE_HEAD_AT,
    RULE_SYMMETRY_AT,
    SOURCE_IN,
    SOURCE_IS_TRIE,
    SOURCE_OUT,
    SOURCE_USE,
    SOURCE_WORDS,
)
from triegs.maintain.kernels.work import (
    AHEAD,
    EMITTED,
    END,
    IS_SURE,
    LEVEL_STATE,
    LEVELS,
    NEXT,
    PROBES_AHEAD,
    RUNS,
    SEED_FIRST,
    SEED_ORBIT,
    SEED_RANK,
    SEED_SECOND,
    SEEDS_AHEAD,
    SYMMETRY,
    UNMERGED,
    VALUES,
    WEIGHT,
    WORDS_AT,
)
from triegs.store.kernels.blocks import entry_key, entry_word
from triegs.store.kernels.cursors import (
    BLOCK,
    BLOCK_ROOM,
    SIZE,
    WORD,
    set_first,
    set_next_block,
    trie_first,
    trie_next,
)
from triegs.store.kernels.cursors import KEY as CURSOR_KEY
from triegs.store.kernels.layout import (
    DIGIT,
    FAULTS,
    HEAD,
    SLOTS,
)
from triegs.store.kernels.trie import find_leaf, trie_get

# Levels


@inlined
def count_checks(table: Words, work: Words, level: int, base: int) -> int:
    """The number of checks of a level; none if the range of the level before implies them all."""
    checks = load(table, level + LEVEL_CHECKS)
    if checks != 0 and load(table, level + LEVEL_IS_COVERED):
        return 0 if load(work, base - LEVEL_STATE + IS_SURE) else checks
    return checks


@merged
def walk_last(
    words: Words, table: Words, work: Words, verdicts: Words, requests: Words, level: int,
    base: int, weight: int, arity: int, head_at: int, checks: int,
) -> None:  # fmt: skip
    """The last level with one source: emit all its entries, block by block."""
    source = load(table, level + LEVEL_SOURCES_AT)
    register = VALUES + load(table, level + LEVEL_REG)
    is_shown, checks_at = (
        load(table, level + LEVEL_IS_SHOWN), load(table, level + LEVEL_CHECKS_AT)
    )  # fmt: skip
    use = load(table, source + SOURCE_USE)
    word = load(work, WORDS_AT + load(table, source + SOURCE_IN))
    total = 0
    if load(table, source + SOURCE_IS_TRIE):
        trie_first(words, work, base, word)
        while trie_next(words, work, base):
            store(work, register, load(work, base + CURSOR_KEY))
            if checks == 0 or passes(table, work, verdicts, requests, checks, checks_at):
                product = weigh(weight, load(work, base + WORD), use)
                if is_shown:
                    emit(words, table, work, arity, head_at, product)
                else:
                    total = add(total, product)
    else:
        set_first(words, work, base, word)
        while True:
            block, room = load(work, base + BLOCK), load(work, base + BLOCK_ROOM)
            for index in range(load(work, base + SIZE)):
                store(work, register, entry_key(words, block, room, index))
                if checks == 0 or passes(table, work, verdicts, requests, checks, checks_at):
                    product = weigh(weight, entry_word(words, block, room, index), use)
                    if is_shown:
                        emit(words, table, work, arity, head_at, product)
                    else:
                        total = add(total, product)
            if not set_next_block(words, work, base):
                break
    if not is_shown and total != 0:
        emit(words, table, work, arity, head_at, total)


@merged
def emit_run(
    words: Words, table: Words, work: Words, verdicts: Words, requests: Words, level: int,
    start: int, end: int, weight: int, arity: int, head_at: int,
) -> None:  # fmt: skip
    """The last level with several sources: emit all entries of its run."""
    count, first = load(table, level + LEVEL_SOURCES), load(table, level + LEVEL_SOURCES_AT)
    register = VALUES + load(table, level + LEVEL_REG)
    is_shown = load(table, level + LEVEL_IS_SHOWN)
    checks, checks_at = load(table, level + LEVEL_CHECKS), load(table, level + LEVEL_CHECKS_AT)
    total = 0
    for at in range(start, end, 1 + count):
        store(work, register, load(work, at))
        if checks != 0 and not passes(table, work, verdicts, requests, checks, checks_at):
            continue
        product = weight
        for number in range(count):
            use = load(table, first + SOURCE_WORDS * number + SOURCE_USE)
            product = weigh(product, load(work, at + 1 + number), use)
        if is_shown:
            emit(words, table, work, arity, head_at, product)
        else:
            total = add(total, product)
    if not is_shown and total != 0:
        emit(words, table, work, arity, head_at, total)


@merged
def fetch_run(
    words: Words, table: Words, work: Words, first: int, count: int, start: int, end: int
) -> None:
    """Prefetch the sets that the entries of a run lead to."""
    for number in range(count):
        if load(table, first + SOURCE_WORDS * number + SOURCE_USE) == LEADS:
            for at in range(start + 1 + number, end, 1 + count):
                fetch_set(words, load(work, at))


@merged
def run_levels(
    words: Words, table: Words, work: Words, verdicts: Words, requests: Words, levels: int,
    levels_at: int, weight: int, arity: int, head_at: int,
) -> None:  # fmt: skip
    """An odometer over the levels. Runs of deeper levels follow those of higher ones."""
    last = levels - 1
    number, top = 0, load(work, RUNS)
    is_new = True
    while number >= 0:
        level, base = levels_at + LEVEL_WORDS * number, LEVELS + LEVEL_STATE * number
        count, first = load(table, level + LEVEL_SOURCES), load(table, level + LEVEL_SOURCES_AT)
        is_trie = load(table, first + SOURCE_IS_TRIE)
        if is_new:
            is_new = False
            if count == 1 and number == last:
                walk_last(
                    words, table, work, verdicts, requests, level, base, weight, arity, head_at,
                    count_checks(table, work, level, base),
                )  # fmt: skip
                number -= 1
                continue
            end = top
            if count == 1:
                word = load(work, WORDS_AT + load(table, first + SOURCE_IN))
                if is_trie == RANGED:
                    open_range(words, table, work, level, base, word, verdicts, requests)
                else:
                    open_walk(words, work, base, word, is_trie)
            else:
                end = gather(words, table, work, level, base, top)
                if number == last:
                    emit_run(
                        words, table, work, verdicts, requests, level, top, end, weight, arity,
                        head_at,
                    )  # fmt: skip
                    number -= 1
                    continue
                fetch_run(words, table, work, first, count, top, end)
            store(work, base + NEXT, top)
            store(work, base + END, end)
            store(work, base + WEIGHT, weight)
        at, top = load(work, base + NEXT), load(work, base + END)
        if count == 1:
            if is_trie == RANGED:
                is_found = range_next(words, work, base)
            else:
                is_found = walk_on(words, work, base, is_trie)
        else:
            is_found = at < top
        if not is_found or load(words, FAULTS) != 0:
            number -= 1
            continue
        weight = load(work, base + WEIGHT)
        if count == 1:
            key, word = load(work, base + CURSOR_KEY), load(work, base + WORD)
            store(work, WORDS_AT + load(table, first + SOURCE_OUT), word)
            weight = weigh(weight, word, load(table, first + SOURCE_USE))
        else:
            store(work, base + NEXT, at + 1 + count)
            key = load(work, at)
            for each in range(count):
                source, word = first + SOURCE_WORDS * each, load(work, at + 1 + each)
                store(work, WORDS_AT + load(table, source + SOURCE_OUT), word)
                weight = weigh(weight, word, load(table, source + SOURCE_USE))
        store(work, VALUES + load(table, level + LEVEL_REG), key)
        checks = count_checks(table, work, level, base)
        if checks != 0 and not passes(
            table, work, verdicts, requests, checks, load(table, level + LEVEL_CHECKS_AT)
        ):
            continue
        number += 1
        is_new = True


# Deltas


@inlined
def read_use(word: int, use: int) -> int:
    if use == COUNT:
        return word
    return 1 if word != 0 else 0


@inlined
def load_roots(words: Words, roots: Words, table: Words, work: Words, delta: int) -> int:
    """Load the root of every other input; returns the product of those without columns."""
    weight = 1
    at = load(table, delta + D_ROOTS_AT)
    for _ in range(load(table, delta + D_ROOTS)):
        slot, use = load(table, at + ROOT_SLOT), load(table, at + ROOT_USE)
        root = load(words, slot)
        if load(table, at + ROOT_IS_OLD):
            root = load(roots, slot - SLOTS) if slot - SLOTS < roots.size else 0
        if load(table, at + ROOT_IS_CONSTANT):
            root = trie_get(words, root, 0)
        store(work, WORDS_AT + load(table, at + ROOT_WORD), root)
        if root == 0:
            return 0
        if use != LEADS:
            weight = weigh(weight, root, use)
        at += ROOT_WORDS
    return weight


@merged
def look_ahead(
    words: Words, table: Words, work: Words, seeds: Words, at: int, end: int, stride: int,
    width: int, delta: int,
) -> None:  # fmt: skip
    """Probe the roots for the next seeds, leaf by leaf and then set by set: their cache misses
    overlap.
    """
    end = min(end, at + SEEDS_AHEAD * stride)
    probes, regs_at = load(table, delta + D_PROBES), load(table, delta + D_REGS_AT)
    for is_second in range(2):
        probe = load(table, delta + D_PROBES_AT)
        for number in range(min(probes, PROBES_AHEAD)):
            row = AHEAD + number
            if not load(table, probe + PROBE_IS_TRIE):
                pass
            elif is_second:
                leads = load(table, probe + PROBE_USE) == LEADS
                for _ in range(at, end, stride):
                    word = load(words, load(work, row))
                    store(work, row, word)
                    if leads:
                        fetch_set(words, word)
                    row += PROBES_AHEAD
            else:
                root = load(work, WORDS_AT + load(table, probe + PROBE_IN))
                register, column = load(table, probe + PROBE_REG), 0
                while column + 1 < width and load(table, regs_at + column) != register:
                    column += 1
                for seed in range(at + column, end + column, stride):
                    key = load(seeds, seed)
                    offset = find_leaf(words, root, key) + HEAD + (key & DIGIT)
                    prefetch(words, offset)
                    store(work, row, offset)
                    row += PROBES_AHEAD
            probe += PROBE_WORDS


@inlined
def find_probe(table: Words, delta: int, word: int) -> int:
    """The number of the probe of a root that writes a word, among those made ahead; else -1."""
    probe = load(table, delta + D_PROBES_AT)
    for number in range(min(load(table, delta + D_PROBES), PROBES_AHEAD)):
        if load(table, probe + PROBE_OUT) == word and load(table, probe + PROBE_IS_TRIE):
            return number
        probe += PROBE_WORDS
    return -1


@merged
def find_pair(table: Words, delta: int) -> tuple[int, int]:
    """The probes made ahead that lead to two sets which the first level intersects; else -1."""
    x, y = -1, -1
    if load(table, delta + D_LEVELS) > 0:
        level = load(table, delta + D_LEVELS_AT)
        source = load(table, level + LEVEL_SOURCES_AT)
        for _ in range(load(table, level + LEVEL_SOURCES)):
            if y < 0 and not load(table, source + SOURCE_IS_TRIE):
                x, y = find_probe(table, delta, load(table, source + SOURCE_IN)), x
            source += SOURCE_WORDS
    return x, y


@merged
def run_delta(
    words: Words, log: Words, lists: Words, work: Words, bounds: Words, entries: Words,
    table: Words, delta: int, arity: int, head_at: int, roots: Words, verdicts: Words,
    requests: Words,
) -> None:  # fmt: skip
    """Emit the effects of the changes of one input."""
    is_entries = load(table, delta + D_FROM) == ENTRIES
    number, width = load(table, delta + D_NUMBER), load(table, delta + D_ARITY)
    use, slot = load(table, delta + D_USE), load(table, delta + D_SLOT)
    if is_entries:
        start, end, stride = load(bounds, number), load(bounds, number + 1), ENTRY_WORDS
    else:
        start, end = load(lists, 2 * number), load(lists, 2 * number + 1)
        stride = 2 if width == 1 else width + 2
    if start == end:
        return
    side = load(table, delta + D_SIDE)
    store(work, SEED_ORBIT, load(table, delta + D_ORBIT))
    factor = load_roots(words, roots, table, work, delta)
    if factor == 0:
        return
    regs_at = load(table, delta + D_REGS_AT)
    checks, checks_at = load(table, delta + D_CHECKS), load(table, delta + D_CHECKS_AT)
    probes, probes_at = load(table, delta + D_PROBES), load(table, delta + D_PROBES_AT)
    levels, levels_at = load(table, delta + D_LEVELS), load(table, delta + D_LEVELS_AT)
    seeds = entries if is_entries else log
    x, y = find_pair(table, delta)
    ahead, ahead_end = AHEAD, AHEAD
    for at in range(start, end, stride):
        ahead += PROBES_AHEAD
        if ahead >= ahead_end:
            look_ahead(words, table, work, seeds, at, end, stride, width, delta)
            ahead, ahead_end = AHEAD, AHEAD + SEEDS_AHEAD * PROBES_AHEAD
        following = ahead + PROBES_AHEAD
        if x >= 0 and y >= 0 and following < ahead_end and at + stride < end:
            fetch_shared(words, load(work, following + x), load(work, following + y))
        if is_entries:
            weight = load(entries, at + max(width, 2))
            for column in range(width):
                store(work, VALUES + load(table, regs_at + column), load(entries, at + column))
        else:
            before = load(log, at + width)
            now = load(log, at + width + 1) if width != 1 else 0
            if width == 1:
                now = trie_get(words, load(words, slot), load(log, at))
            weight = subtract(read_use(now, use), read_use(before, use))
            if side != BOTH:
                weight = now if side == NOW else -before
                store(work, SEED_FIRST, load(log, at))
                store(work, SEED_SECOND, load(log, at + 1))
                store(work, SEED_RANK, at)
            for column in range(width):
                store(work, VALUES + load(table, regs_at + column), load(log, at + column))
        if weight == 0:
            continue
        weight = weigh(weight, factor, COUNT)
        if checks != 0 and not passes(table, work, verdicts, requests, checks, checks_at):
            continue
        probe = probes_at
        is_found = True
        for each in range(probes):
            is_trie = load(table, probe + PROBE_IS_TRIE)
            if is_trie and each < PROBES_AHEAD:
                word = load(work, ahead + each)
            else:
                key = load(work, VALUES + load(table, probe + PROBE_REG))
                word = load(work, WORDS_AT + load(table, probe + PROBE_IN))
                word = follow(words, word, is_trie, key)
            if word == 0:
                is_found = False
                break
            store(work, WORDS_AT + load(table, probe + PROBE_OUT), word)
            weight = weigh(weight, word, load(table, probe + PROBE_USE))
            probe += PROBE_WORDS
        if not is_found:
            continue
        if levels == 0:
            emit_next(words, table, work, arity, head_at, weight)
        else:
            run_levels(
                words, table, work, verdicts, requests, levels, levels_at, weight, arity, head_at
            )
        if load(words, FAULTS) != 0:
            return


@kernel
def step_rule(
    words: Words, log: Words, lists: Words, work: Words, bounds: Words, entries: Words,
    table: Words, step: int, roots: Words, verdicts: Words, requests: Words,
) -> bool:  # fmt: skip
    """Update the output of a rule; false, with nothing changed, if it waits for verdicts."""
    arity, head_at = load(table, step + RULE_ARITY), load(table, step + RULE_HEAD_AT)
    open_emissions(work, arity)
    store(work, SYMMETRY, load(table, step + RULE_SYMMETRY_AT))
    if load(work, SYMMETRY) != 0:
        rank_pairs(words, log, lists, work, table)
    for number in range(load(table, step + RULE_DELTAS)):
        delta = load(table, step + RULE_DELTAS_AT) + DELTA_WORDS * number
        run_delta(
            words, log, lists, work, bounds, entries, table, delta, arity, head_at, roots,
            verdicts, requests,
        )  # fmt: skip
        if load(words, FAULTS) != 0:
            return True
    request_sorted(work, table, step, verdicts, requests)
    if load(requests, 0) > 1:
        return False
    store(work, UNMERGED, load(work, EMITTED))
    if load(work, EMITTED) > 0:
        sort_emissions(work)
        merge_emissions(words, work)
        if load(words, FAULTS) == 0:
            apply_sorted(words, work, table, step, verdicts)
        if load(words, FAULTS) == 0:
            apply_emissions(words, log, lists, work, table, step, roots)
    return True
