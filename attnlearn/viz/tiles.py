"""The tile map over a mask: full, partial and empty, by colour and by letter or hatch."""

import numpy as np

from attnlearn.masks import EMPTY, FULL, PARTIAL
from attnlearn.viz.colours import MASKS

LETTERS = {EMPTY: "E", PARTIAL: "P", FULL: "F"}


def _rectangles(tiles, block):
    """Yield ``(kind, x, y, w, h)`` in positions, neighbours of a kind in a row merged."""
    bq, bk = block
    for r, row in enumerate(tiles):
        edges = np.flatnonzero(np.diff(row)) + 1
        for a, b in zip([0, *edges], [*edges, len(row)], strict=True):
            yield int(row[a]), a * bk, r * bq, (b - a) * bk, bq


def tile_shapes(tiles, block, T, S, hatch):
    """Fill full and partial tiles; hatch the partial ones where no cells show inside them."""
    fill = {PARTIAL: [], FULL: []}
    for kind, x, y, w, h in _rectangles(tiles, block):
        if kind != EMPTY:
            fill[kind].append(f"M{x} {y}H{min(x + w, S)}V{min(y + h, T)}H{x}z")
    shapes = [
        f'<path fill="{MASKS[name]}" shape-rendering="crispEdges" d="{"".join(fill[kind])}"/>'
        for kind, name in [(FULL, "seen"), (PARTIAL, "partial")]
        if fill[kind]
    ]
    if hatch and fill[PARTIAL]:
        (bq, bk), (rows, columns) = block, np.nonzero(tiles == PARTIAL)
        d = "".join(
            f"M{c * bk} {min(r * bq + bq, T)}L{min(c * bk + bk, S)} {r * bq}"
            for r, c in zip(rows, columns, strict=True)
        )
        shapes.append(
            f'<path fill="none" stroke="{MASKS["ink"]}" '
            f'vector-effect="non-scaling-stroke" d="{d}"/>'
        )
    return shapes


def tile_letters(tiles, block, T, S, unit):
    """E, P or F in the middle of each tile that has room for it."""
    bq, bk = block
    if min(bq, bk) * unit < 14:
        return ""
    out = []
    for r, row in enumerate(tiles):
        for c, kind in enumerate(row):
            x = (c * bk + min(c * bk + bk, S)) / 2 * unit
            y = (r * bq + min(r * bq + bq, T)) / 2 * unit
            out.append(_letter(LETTERS[int(kind)], x, y))
    return f'<g text-anchor="middle" font-weight="700">{"".join(out)}</g>'


def _letter(letter, x, y):
    return (
        f'<rect x="{x - 6:.4g}" y="{y - 6.5:.4g}" width="12" height="13" rx="3" fill="#fff"/>'
        f'<text x="{x:.4g}" y="{y + 4:.4g}">{letter}</text>'
    )


def legend(x, y):
    """Swatches with the letters of full, partial and empty tiles."""
    out = []
    for letter, name, colour, step in [
        ("F", "full", "seen", 50),
        ("P", "partial", "partial", 66),
        ("E", "empty", "hidden", 0),
    ]:
        hatch = f'<path stroke="{MASKS["ink"]}" d="M{x} {y + 1}l12 -12"/>' if letter == "P" else ""
        out.append(
            f'<rect x="{x}" y="{y - 11}" width="12" height="12" fill="{MASKS[colour]}" '
            f'stroke="{MASKS["line"]}"/>{hatch}<text x="{x + 16}" y="{y}">{letter} {name}</text>'
        )
        x += step
    return "".join(out)
