"""Compiled functions over one arena of 64-bit words.

In the order of imports: `jit` (how everything is compiled), `intrinsics` and `words` (bits and
words), `layout` (what stands where), `memory` (the array itself), `arena` (nodes: allocate, copy,
retire), `trie` (id to word), `sets` (id to word, packed), `relations` (tuples to counts), `cursors`
(reading with constant delay), `epochs` (publish, reclaim, abort). Kernels take the arena and a few
integers; `docs/trie.md` is the essay on all of them.
"""
