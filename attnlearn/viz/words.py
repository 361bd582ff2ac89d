"""What a mask shows, in words: for screen readers, terminals and the line under a figure."""

import numpy as np

from attnlearn.masks import EMPTY, FULL, PARTIAL

ROWS = 16  # a longer description is no longer listened to


def runs(row):
    """``(start, stop)`` of each run of True in a bool row."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], row, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def span_words(row):
    """``keys 0 to 3, 7`` for the keys that one query sees."""
    spans = [f"{a}" if b == a + 1 else f"{a} to {b - 1}" for a, b in runs(row)]
    if not spans:
        return "no key"
    return ("key " if np.count_nonzero(row) == 1 else "keys ") + ", ".join(spans)


def row_sentences(cells, T, S, queries=None):
    """One sentence for each query of ``cells`` (bool [T, S]), by its label or its position."""
    names = range(S - T, S) if queries is None else queries
    rows = zip(names, cells, strict=True)
    return [f"Query {name} sees {span_words(row)}." for name, row in rows]


def row_words(cells, T, S, queries=None):
    """The count of seen pairs, then a sentence for each query when there are few."""
    seen = f"{np.count_nonzero(cells)} of {T * S} pairs are seen."
    return [seen, *(row_sentences(cells, T, S, queries) if T <= ROWS else [])]


def tile_sentences(tiles):
    """One sentence for each row of tiles."""
    return [
        f"Tile row {r}: "
        + "; ".join(
            f"{name} {span_words(row == kind).removeprefix('keys ').removeprefix('key ')}"
            for kind, name in [(FULL, "full"), (PARTIAL, "partial"), (EMPTY, "empty")]
            if (row == kind).any()
        )
        + "."
        for r, row in enumerate(tiles)
    ]


def tile_words(tiles, block):
    """How many tiles are full, partial and empty."""
    full, partial, empty = (int(np.count_nonzero(tiles == k)) for k in (FULL, PARTIAL, EMPTY))
    return [
        f"Tiles of {block[0]} queries by {block[1]} keys: "
        f"{full} full, {partial} partial, {empty} empty."
    ]


def mask_title(mask, T, S):
    """The mask's own name and the size of the picture."""
    name = repr(mask)
    name = name if len(name) <= 80 else name[:77] + "..."
    queries, keys = "query" if T == 1 else "queries", "key" if S == 1 else "keys"
    return f"Mask {name}: {T} {queries} down, {S} {keys} across"
