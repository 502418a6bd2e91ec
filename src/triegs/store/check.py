"""The invariants of the packed store, numbered as in `docs/trie.md`, checked on its words.

Plain Python that shares the layout with the kernels but no code. It visits every node, a relation
that several versions have in common once; use it in tests and for diagnosis.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from hashlib import blake2b

import numpy as np

from triegs.jit.words import Words
from triegs.store.bounds import ID_LIMIT, KEY_LIMIT
from triegs.store.contract import StoreCorrupt
from triegs.store.kernels.layout import (
    ARITY,
    BARE,
    BARE_LARGEST,
    BARE_SMALLEST,
    BITS,
    BUMP,
    CHUNK_ENTRIES,
    CLASS,
    CLASS_BITS,
    CLASS_SHIFT,
    CLASSES,
    DIRECTORY,
    EPOCH,
    FANOUT,
    FREE,
    FREE_COUNT,
    FRESH,
    FRESH_AT,
    FRESH_LAST,
    FULL_BLOCK,
    GROWN,
    HEAD,
    HEIGHT_SHIFT,
    LARGEST,
    LAYOUT_SHIFT,
    LEVELS,
    LOAD,
    LOAD_SHIFT,
    LOW,
    MERGE_AT,
    NODE_CLASS,
    OFFSET,
    PAGE_BITS,
    PLAIN,
    RANKED,
    RETAINED,
    RUN_LISTS,
    RUN_WORDS,
    RUNS,
    SET_LEVELS,
    SHARED_BIRTH,
    SHARED_CLASS,
    SHARED_NODES,
    SHARED_WORDS,
    SLOT_WORDS,
    SLOTS,
    SMALLEST,
    START,
    SUMMED,
    SUMMED_CLASS,
    SUMMED_WORDS,
)
from triegs.store.kernels.shared import SHARED_HEADER
from triegs.store.relations import PackedRelation, PackedVersion
from triegs.store.room import CLASS_WORDS
from triegs.store.versions import VersionedArena

Nodes = dict[int, int]  # offset to class
Counts = tuple[int, int]  # of answers and rows


def fail(invariant: int, where: str, what: str) -> StoreCorrupt:
    return StoreCorrupt(f"invariant {invariant}: {where}: {what}")


class Known:
    """What has been visited of an arena that does not change meanwhile."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.halves = words.view(np.uint32)
        #: The nodes and the number of tuples of a relation, by its root and shape.
        self.relations: dict[tuple[int, int], tuple[Nodes, int]] = {}

    @cached_property
    def directory(self) -> tuple[Nodes, dict[int, int]]:
        """The nodes of the directory of shared blocks, and its pages."""
        return check_pages(self.words)


class Visit:
    """A walk over the relations of one version, or of the current epoch."""

    def __init__(self, words: Words, where: str, number: int, known: Known | None = None) -> None:
        self.words = words
        self.where = where
        self.number = number
        self.nodes: Nodes = {}
        self.bump = int(words[BUMP])
        self.known = known if known is not None and known.words is words else Known(words)

    def read(self, node: int, size_class: int, oldest_parent: int) -> list[int]:
        """The words of a node, once; invariants 6 and 9."""
        size = CLASS_WORDS[size_class]
        if node % 2 or not START <= node <= self.bump - size:
            raise fail(9, self.where, f"{node} is not a valid node offset")
        if node in self.nodes:
            raise fail(9, self.where, f"node {node} is reached twice")
        self.nodes[node] = size_class
        content: list[int] = self.words[node : node + size].tolist()
        if not 1 <= content[0] <= min(oldest_parent, self.number):
            raise fail(6, self.where, f"node {node} was born in epoch {content[0]}, "
                       f"below one of epoch {oldest_parent}")  # fmt: skip
        return content

    def read_children(
        self, node: int, size_class: int, parent_birth: int
    ) -> tuple[list[int], dict[int, int]]:
        """A node and its children by digit; invariants 2, 3 and 13."""
        content = self.read(node, size_class, parent_birth)
        words = content[HEAD : HEAD + FANOUT]
        children = {digit: word for digit, word in enumerate(words) if word}
        if size_class == SUMMED_CLASS:
            for digit in set(range(FANOUT)) - children.keys():
                if any(content[HEAD + FANOUT + digit :: FANOUT]):
                    raise fail(13, self.where, f"node {node} has counts for an empty word")
        if content[1] & LOW != sum(1 << digit for digit in children):
            raise fail(2, self.where, f"the bitmap of node {node} is {content[1] & LOW:b}")
        if not children:
            raise fail(3, self.where, f"node {node} is empty")
        return content, children

    def check_flag(self, node: int, bitmap: int, size_class: int) -> None:
        """An inner node flags its class and nothing else; invariant 2."""
        if bitmap & ~LOW != (SUMMED if size_class == SUMMED_CLASS else 0):
            raise fail(2, self.where, f"node {node} is not a leaf but has touch flags")

    def walk_relation(self, root: int, shape: int) -> int:
        """Check a relation; returns the number of its tuples."""
        if shape & ARITY == 0 or root == 0:
            return int(root != 0)
        if (root, shape) not in self.known.relations:
            alone = Visit(self.words, self.where, self.number, self.known)
            tuples = alone.walk_root(root, shape)
            self.known.relations[root, shape] = alone.nodes, tuples
        nodes, tuples = self.known.relations[root, shape]
        # All below the root is older than it, which the first visit has seen.
        birth = int(self.words[root & OFFSET])
        if birth > self.number:
            raise fail(6, self.where, f"node {root & OFFSET} was born in epoch {birth}, "
                       f"below one of epoch {self.number}")  # fmt: skip
        if shared := self.nodes.keys() & nodes.keys():
            raise fail(9, self.where, f"node {min(shared)} is reached twice")
        self.nodes |= nodes
        return tuples

    def walk_root(self, root: int, shape: int) -> int:
        arity, layout = shape & ARITY, shape >> LAYOUT_SHIFT
        inner = SUMMED_CLASS if layout == RANKED else NODE_CLASS
        leaf = NODE_CLASS if layout == PLAIN else SUMMED_CLASS
        height = root >> HEIGHT_SHIFT
        if not 0 <= height < LEVELS:
            raise fail(1, self.where, f"a trie of height {height}")
        top = root & OFFSET
        if height:
            alone = Visit(self.words, self.where, self.number, self.known)
            _, children = alone.read_children(top, inner, self.number)
            if set(children) == {0}:
                raise fail(1, self.where, f"the trie at {top} is higher than its ids need")
        tuples = 0
        for word, birth, counts in self.walk_trie(top, height, 0, self.number, inner, leaf):
            tuples += 1 if arity == 1 else self.walk_set(word, arity - 2, birth)
            if layout != PLAIN and arity == 2 and word & 1:
                self.check_counts(word, counts)
        return tuples

    def walk_trie(
        self, node: int, height: int, key: int, parent_birth: int, inner: int, leaf: int
    ) -> Iterator[tuple[int, int, Counts]]:
        """The words of a trie, each with the birth of its leaf and its counts."""
        content, children = self.read_children(node, inner if height else leaf, parent_birth)
        if height:
            self.check_flag(node, content[1], inner)
        for digit, word in children.items():
            longer = key << BITS | digit
            if height:
                if inner == SUMMED_CLASS:
                    self.check_counts(word | 1, counts_at(content, digit))
                yield from self.walk_trie(word, height - 1, longer, content[0], inner, leaf)
            elif longer >= ID_LIMIT:
                raise fail(1, self.where, f"{longer} is not an id")
            else:
                yield word, content[0], counts_at(content, digit)

    def check_counts(self, reference: int, counts: Counts) -> None:
        """The counts of a node are the sums of the counts inside it; invariant 13."""
        node = reference - 1
        content = self.words[node : node + SUMMED_WORDS].tolist()
        start = HEAD + FANOUT
        found = sum(content[start : start + FANOUT]), sum(content[start + FANOUT :])
        if found != counts:
            raise fail(13, self.where, f"node {node} has counts {found}, its parent has {counts}")

    def walk_set(self, reference: int, sets_below: int, parent_birth: int) -> int:
        """Check a set and all below it; returns the number of tuples."""
        entries = self.walk_entries(reference, 0, 0, parent_birth)
        if len({entry[0] for entry in entries}) < len(entries):
            raise fail(1, self.where, f"a key occurs twice in the set at {reference}")
        if not sets_below:
            return len(entries)
        return sum(self.walk_set(word, sets_below - 1, birth) for _, word, birth in entries)

    def walk_entries(
        self, reference: int, shift: int, low_bits: int, parent_birth: int
    ) -> list[tuple[int, int, int]]:
        """The entries of a set, each with the birth of its block."""
        if reference & 1:
            return self.walk_hub(reference - 1, shift, low_bits, parent_birth)
        size_class = self.read_class(reference)
        if size_class == SHARED_CLASS:
            return [(self.read_shared(reference, shift), 1, 0)]
        content = self.read(reference, size_class, parent_birth)
        is_bare = bool(content[1] & BARE)
        slots, size = (BARE_SMALLEST if is_bare else SMALLEST) << size_class, content[1] & LOW
        if not (slots // 4 if size_class else 0) < size <= slots:
            raise fail(4, self.where, f"the block at {reference} has {size} of {slots} entries")
        if is_bare:
            at = 2 * (reference + HEAD)
            keys = self.known.halves[at : at + size].tolist()
            words = [1] * size
        else:
            keys = content[HEAD : HEAD + size]
            words = content[HEAD + slots : HEAD + slots + size]
        least, most = min(keys), max(keys)
        if is_bare != (most < ID_LIMIT and words.count(1) == size):
            kind = "bare" if is_bare else "plain"
            raise fail(4, self.where, f"the block at {reference} must not be {kind}")
        if is_bare and size == 1 and shift == 0:
            raise fail(14, self.where, f"the block at {reference} must be a shared one")
        mask = (1 << shift) - 1
        if least < 0 or most >= KEY_LIMIT or any(key & mask != low_bits for key in keys):
            raise fail(1, self.where, f"a key is in the wrong block, at {reference}")
        if 0 in words:
            raise fail(3, self.where, f"a key has the word 0 in the block at {reference}")
        return list(zip(keys, words, [content[0]] * size, strict=True))

    def read_class(self, block: int) -> int:
        if not START <= block < self.bump:
            raise fail(9, self.where, f"{block} is not a valid block offset")
        header = int(self.words[block + 1])
        if header == SHARED_HEADER:
            return SHARED_CLASS
        size_class = header >> CLASS_SHIFT & CLASS
        largest, bare = (BARE_LARGEST, BARE) if header & BARE else (LARGEST, 0)
        if size_class > largest or header != header & LOW | size_class << CLASS_SHIFT | bare:
            raise fail(4, self.where, f"the block at {block} has the header {header:#x}")
        return size_class

    def read_shared(self, block: int, shift: int) -> int:
        """The id of a shared block; invariant 14."""
        key = int(self.words[block + HEAD]) & LOW
        page = self.known.directory[1].get(key >> PAGE_BITS, 0)
        expected = page + SHARED_WORDS * (key % (1 << PAGE_BITS))
        if page == 0 or block != expected or shift:
            raise fail(14, self.where, f"{block} is not the shared block of {key}, or below a hub")
        return key

    def walk_hub(
        self, hub: int, shift: int, low_bits: int, parent_birth: int
    ) -> list[tuple[int, int, int]]:
        if shift >= SET_LEVELS * BITS:
            raise fail(5, self.where, f"the hub at {hub} is too deep")
        size_class = SUMMED_CLASS if self.words[hub + 1] < 0 else NODE_CLASS
        content, children = self.read_children(hub, size_class, parent_birth)
        entries: list[tuple[int, int, int]] = []
        expected = 0
        for digit, below in children.items():
            bits = low_bits | digit << shift
            found = self.walk_entries(below, shift + BITS, bits, content[0])
            expected += FULL_BLOCK if below & 1 else len(found)
            entries += found
            if size_class == SUMMED_CLASS and below & 1:
                self.check_counts(below, counts_at(content, digit))
        if expected <= (FULL_BLOCK - 1 if content[1] & GROWN else MERGE_AT):
            raise fail(5, self.where, f"the hub at {hub} has {len(entries)} entries, too few")
        if content[1] >> LOAD_SHIFT & LOAD != expected:
            raise fail(2, self.where, f"the hub at {hub} has a load of {expected}, "
                       f"but says {content[1] >> LOAD_SHIFT & LOAD}")  # fmt: skip
        return entries


def counts_at(content: list[int], digit: int) -> Counts:
    """The counts of a word; zeros in a node without counts."""
    at = HEAD + FANOUT + digit
    return (content[at], content[at + FANOUT]) if len(content) == SUMMED_WORDS else (0, 0)


def check_relation(
    store: VersionedArena, relation: PackedRelation, known: Known | None = None
) -> Nodes:
    """Invariants 1 to 6 and 8 of a relation in the current epoch."""
    visit = Visit(store.words, relation.name, int(store.words[EPOCH]), known)
    root, entries = store.read_slot(relation)
    found = visit.walk_relation(root, relation.shape)
    if found != entries:
        raise fail(8, relation.name, f"{found} tuples, but a size of {entries}")
    return visit.nodes


@lru_cache(maxsize=4096)  # a page never changes, and every check of a store reads all of them
def make_page(key: int) -> list[int]:
    """The words of a page of shared blocks."""
    ids = range(key << PAGE_BITS, (key + 1) << PAGE_BITS)
    shared = (word for each in ids for word in (SHARED_HEADER, SHARED_BIRTH | each))
    return [SHARED_BIRTH, *shared, 0]


def check_pages(words: Words) -> tuple[Nodes, dict[int, int]]:
    """The nodes of the directory of shared blocks, and its pages by their number; invariant 14."""
    root, found, pages = int(words[DIRECTORY]), Nodes(), dict[int, int]()

    def walk(node: int, height: int, key: int) -> None:
        if not START <= node < int(words[BUMP]) or node in found:
            raise fail(14, "directory", f"{node} is not a valid node offset")
        found[node] = NODE_CLASS
        if height < 0:
            blocks = words[node : node + CLASS_WORDS[NODE_CLASS]].tolist()
            if blocks != make_page(key):
                raise fail(14, "directory", f"page {key} at {node} has been changed")
            pages[key] = node
            return
        children = words[node + HEAD : node + HEAD + FANOUT].tolist()
        if words[node + 1] != sum(1 << digit for digit, below in enumerate(children) if below):
            raise fail(14, "directory", f"the bitmap of node {node} is {words[node + 1]:b}")
        for digit, below in enumerate(children):
            if below:
                walk(below, height - 1, key << BITS | digit)

    if root:
        walk(root & OFFSET, root >> HEIGHT_SHIFT, 0)
    return found, pages


def check_version(version: PackedVersion, known: Known | None = None) -> Nodes:
    """Invariants 1 to 9 of a version; returns the nodes that it reaches."""
    visit = Visit(version.words, f"version {version.number}", version.number, known)
    for relation in version.members:
        at = SLOT_WORDS * relation.slot
        found = visit.walk_relation(int(version.roots[at]), relation.shape)
        if found != version.roots[at + 1]:
            raise fail(8, f"{visit.where}, {relation.name}",
                       f"{found} tuples, but a size of {version.roots[at + 1]}")  # fmt: skip
    digest = blake2b(version.roots.tobytes(), digest_size=16)
    for node in sorted(visit.nodes):
        digest.update(version.words[node : node + CLASS_WORDS[visit.nodes[node]]].tobytes())
    if version.digest is None:
        version.digest = digest.digest()
    elif version.digest != digest.digest():
        raise fail(7, visit.where, "the version changed after it was published")
    return visit.nodes


def read_list(
    words: Words, chunk: int, where: str, open_ended: bool = False
) -> tuple[Nodes, Nodes]:
    """The nodes on a list of chunks, and the chunks; the list of the current epoch is open."""
    listed: Nodes = {}
    chunks: Nodes = {}
    while chunk:
        if chunk in chunks or not START <= chunk < int(words[BUMP]):
            raise fail(9, where, f"a broken list at {chunk}")
        chunks[chunk] = NODE_CLASS
        size = int(words[chunk + 1])
        if open_ended and chunk == words[FRESH_LAST]:
            size = int(words[FRESH_AT]) - chunk - HEAD
        if not 1 <= size <= CHUNK_ENTRIES:
            raise fail(9, where, f"a chunk of {size} entries at {chunk}")
        for entry in words[chunk + HEAD : chunk + HEAD + size].tolist():
            if entry >> CLASS_BITS in listed:
                raise fail(9, where, f"node {entry >> CLASS_BITS} is listed twice")
            listed[entry >> CLASS_BITS] = entry & CLASS
        chunk = int(words[chunk])
    return listed, chunks


def read_free(words: Words) -> Nodes:
    """The free nodes; invariant 10 on their number."""
    free: Nodes = {}
    for size_class in range(CLASSES):
        node, length = int(words[FREE + size_class]), 0
        while node:
            if node in free or not START <= node < int(words[BUMP]):
                raise fail(9, "free list", f"broken at {node}")
            free[node] = size_class
            length += 1
            node = int(words[node])
        if length != words[FREE_COUNT + size_class]:
            raise fail(10, "free list", f"{length} nodes of class {size_class}, "
                       f"counted {words[FREE_COUNT + size_class]}")  # fmt: skip
    return free


def read_runs(words: Words) -> dict[int, int]:
    """The runs, each with its number of words; invariants 9 and 10 on where they are listed."""
    runs: dict[int, int] = {}
    for kind in range(RUN_LISTS):
        run = int(words[RUNS + kind])
        while run:
            if run in runs or run % 2 or not START <= run < int(words[BUMP]):
                raise fail(9, "runs", f"broken at {run}")
            size = runs[run] = int(words[run + 1])
            if size < 2 or size % 2 or bisect_right(CLASS_WORDS, size) != kind:
                raise fail(9, "runs", f"{size} words at {run} are in list {kind}")
            run = int(words[run])
    if sum(runs.values()) != words[RUN_WORDS]:
        raise fail(10, "runs", f"{sum(runs.values())} words, counted {int(words[RUN_WORDS])}")
    return runs


def count_words(nodes: Nodes) -> int:
    return sum(CLASS_WORDS[size_class] for size_class in nodes.values())


def check_partition(words: Words, groups: dict[str, Nodes], runs: dict[int, int]) -> None:
    """Invariant 9: every word from the first node on belongs to one node of one group, or to a
    run of free words.
    """
    spans = [
        (node, CLASS_WORDS[size_class], group)
        for group, nodes in groups.items()
        for node, size_class in nodes.items()
    ]
    spans = sorted(spans + [(run, size, "run") for run, size in runs.items()])
    expected, before = START, "the start"
    for node, size, group in spans:
        if node != expected:
            raise fail(9, group, f"node {node} follows {before}, which ends at {expected}")
        expected, before = node + size, f"{group} node {node}"
    if expected != words[BUMP]:
        raise fail(9, "arena", f"nodes end at {expected}, not at {int(words[BUMP])}")


def check_store(store: VersionedArena, held: Iterable[PackedVersion]) -> None:
    """All invariants of a store with up-to-date holds."""
    words = store.words
    if words[:SUMMED_WORDS].any():
        raise fail(11, "arena", "the null node is not zero")
    current: Nodes = {}
    known = Known(words)
    for relation in store.members:
        nodes = check_relation(store, relation, known)
        if shared := current.keys() & nodes.keys():
            raise fail(9, relation.name, f"shares node {min(shared)} with another relation")
        current |= nodes
    slots = {SLOTS + SLOT_WORDS * relation.slot for relation in store.members}
    for at in range(SLOTS, SLOTS + SLOT_WORDS * store.slots_used, SLOT_WORDS):
        if at not in slots and words[at : at + SLOT_WORDS].any():
            raise fail(8, "arena", f"slot {(at - SLOTS) // SLOT_WORDS} is unused and not empty")
    newest = check_version(store.newest, known)
    visible: Nodes = {}
    for version in held:
        visible |= check_version(version, known)

    fresh, fresh_chunks = read_list(words, int(words[FRESH]), "retired in this epoch", True)
    if fresh.keys() != newest.keys() - current.keys():
        odd = min(fresh.keys() ^ (newest.keys() - current.keys()))
        raise fail(
            12, "retired in this epoch", f"node {odd} is both retired and reachable, or neither"
        )
    waiting: Nodes = {}
    lists: Nodes = {}
    for at in range(0, store.holds.size, 2):
        number, chunk = store.holds[at : at + 2].tolist()
        nodes, chunks = read_list(words, chunk, f"waiting for version {number}")
        for node in nodes:
            if words[node] > number:
                raise fail(12, f"waiting for version {number}", f"node {node} is younger")
        waiting |= nodes
        lists |= chunks
    expected = visible.keys() - newest.keys() - current.keys()
    if waiting.keys() != expected:
        odd = min(waiting.keys() ^ expected)
        raise fail(
            12,
            "waiting for readers",
            f"node {odd} is listed but not needed, or needed but not listed",
        )

    free = read_free(words)
    pages, _ = known.directory
    if len(pages) != words[SHARED_NODES]:
        raise fail(10, "directory", f"{len(pages)} nodes, counted {int(words[SHARED_NODES])}")
    check_partition(words, {
        "live": current | newest, "shared": pages, "list": fresh_chunks | lists,
        "retained": waiting, "free": free,
    }, read_runs(words))  # fmt: skip
    if count_words(waiting) + count_words(lists) != words[RETAINED]:
        raise fail(10, "arena", f"{count_words(waiting) + count_words(lists)} words are retained, "
                   f"counted {int(words[RETAINED])}")  # fmt: skip
