"""One mask as a small SVG: rows are queries, columns are keys, what is seen is filled."""

from html import escape
from math import ceil

import numpy as np

from attnlearn.viz.colours import MASKS
from attnlearn.viz.tiles import legend, tile_letters, tile_shapes
from attnlearn.viz.words import mask_title, row_words, runs, tile_words

SIDE = 224  # pixels of the longer side, so that a figure fits a phone
CELLS = 64  # more rows or columns than this cannot be told apart


def mask_svg(mask, T, S, *, block=None, queries=None, keys=None):
    """Draw ``mask`` over T queries and S keys as an inline SVG, and return its text.

    ``block=(bq, bk)`` marks each tile as full, partial or empty. More than 64 positions are always
    drawn by tiles. ``queries`` and ``keys`` are labels (tokens) in place of positions.
    Raises ``ValueError`` for a mask that differs per example or head (see ``show_mask``).
    """
    _check(T, S, block, queries, keys)
    if block is None and max(T, S) > CELLS:
        block = (ceil(T / CELLS), ceil(S / CELLS))
    cells = _one_matrix(mask.dense(T, S)) if max(T, S) <= CELLS else None
    tiles = None if block is None else _one_matrix(mask.blocks(T, S, *block))
    words = row_words(cells, T, S, queries) if tiles is None else tile_words(tiles, block)
    return _draw(cells, tiles, block, T, S, queries, keys, mask_title(mask, T, S), words)


def _one_matrix(array):
    """Drop leading axes of length one; refuse more than one matrix."""
    array = np.asarray(array)
    if any(n != 1 for n in array.shape[:-2]):
        raise ValueError(
            f"mask: one matrix is drawn, this mask has {array.shape[:-2]} of them; use show_mask"
        )
    return array.reshape(array.shape[-2:])


def _draw(cells, tiles, block, T, S, queries, keys, title, words):
    """Put together the SVG from ``cells`` (bool [T, S]) or ``tiles`` (int8), or both."""
    unit = min(28, SIDE / max(T, S))
    if queries is not None or keys is not None:
        unit = max(unit, 11)  # the height of a token
    beside, above = _ticks(T, S - T, queries), _ticks(S, 0, keys)
    turn = keys is not None and _room(above) > 14
    left, top = 16 + _room(beside), 18 + (_room(above) if turn else 14)
    width, height = left + S * unit + 8, top + max(T * unit, 44) + 6
    inside = [f'<path fill="{MASKS["hidden"]}" d="M0 0H{S}V{T}H0z"/>']
    letters = swatches = ""
    if tiles is not None:
        inside += tile_shapes(tiles, block, T, S, hatch=cells is None)
        letters = tile_letters(tiles, block, T, S, unit)
        swatches = legend(left, height + 12)
        width, height = max(width, left + 182), height + 22
    if cells is not None:
        inside.append(_strokes(cells))
    inside.append(_lines(T, S, block))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" font-size="11" '
        f'font-family="system-ui,sans-serif" fill="{MASKS["ink"]}">'
        f"<title>{escape(title)}</title><desc>{escape(' '.join(words))}</desc>"
        f'<g transform="translate({left} {top}) scale({unit:.6g})">{"".join(inside)}</g>'
        f'<g transform="translate({left} {top})">{letters}'
        f"{_labels(beside, above, turn, unit)}</g>"
        f'<text x="{left}" y="11">key j →</text>'
        f'<text transform="translate(3 {top}) rotate(90)">query i →</text>{swatches}</svg>'
    )


def _strokes(cells):
    """Seen cells as one path: each run of a row is a horizontal stroke as thick as a cell."""
    d = []
    for t, row in enumerate(cells):
        pen = None
        for start, stop in runs(row):
            d.append(f"M{start} {t}.5" if pen is None else f"m{start - pen} 0")
            d.append(f"h{stop - start}")
            pen = stop
    path = "".join(d)
    return f'<path stroke="{MASKS["seen"]}" shape-rendering="crispEdges" d="{path}"/>' if d else ""


def _lines(T, S, block):
    """Borders of the cells (while they can be told apart), heavier borders of the tiles."""

    def ruled(bq, bk, colour, width):
        across = "".join(f"M0 {y}H{S}" for y in [*range(0, T, bq), T])
        down = "".join(f"M{x} 0V{T}" for x in [*range(0, S, bk), S])
        return (
            f'<path fill="none" stroke="{MASKS[colour]}" stroke-width="{width}" '
            f'vector-effect="non-scaling-stroke" d="{across}{down}"/>'
        )

    thin = ruled(1, 1, "line", 0.6) if max(T, S) <= 32 else ruled(T, S, "line", 1)
    if block is None:
        return thin
    many = max(T / block[0], S / block[1])
    if many > 32:
        return thin
    return thin + (ruled(*block, "ink", 1.5) if many <= 16 else ruled(*block, "line", 0.4))


def _ticks(n, first, labels):
    """``(place, name)`` of each tick: all tokens, all of 16 positions, else at most eight."""
    if labels is not None:
        return list(enumerate(map(str, labels)))
    step = 1 if n <= 16 else 2 ** ceil(np.log2(n / (8 if n < 1000 else 4)))
    return [(place, str(first + place)) for place in range(0, n, step)]


def _room(ticks):
    """Pixels for the longest name."""
    return max(14, 6 + 6 * max(len(name) for _, name in ticks))


def _labels(beside, above, turn, unit):
    """Names of the queries at the left and of the keys above, upright when they are long."""
    rows = "".join(
        f'<text x="-4" y="{(t + 0.5) * unit + 4:.4g}">{escape(name)}</text>' for t, name in beside
    )
    columns = "".join(
        f"<text {_upright(x * unit) if turn else _level(x * unit)}>{escape(name)}</text>"
        for x, name in ((j + 0.5, name) for j, name in above)
    )
    anchor = "start" if turn else "middle"
    return (
        f'<g font-size="10" text-anchor="end">{rows}</g>'
        f'<g font-size="10" text-anchor="{anchor}">{columns}</g>'
    )


def _level(x):
    return f'x="{x:.4g}" y="-4"'


def _upright(x):
    return f'transform="translate({x + 4:.4g} -4) rotate(-90)"'


def _check(T, S, block, queries, keys):
    if T < 1 or S < 1:
        raise ValueError(f"T, S: nothing to draw with T={T}, S={S}; both must be at least 1")
    for name, labels, n in [("queries", queries, T), ("keys", keys, S)]:
        if labels is not None and (len(labels) != n or n > CELLS):
            raise ValueError(f"{name}: got {len(labels)} labels for {n} rows; at most {CELLS}")
    if block is None:
        return
    if len(block) != 2 or min(block) < 1:
        raise ValueError(f"block: got {block}, needs (bq, bk), both at least 1")
    tall, wide = ceil(T / block[0]), ceil(S / block[1])
    if max(tall, wide) > CELLS:
        least = (ceil(T / CELLS), ceil(S / CELLS))
        raise ValueError(
            f"block: {block} makes {tall} x {wide} tiles; at most {CELLS} a side can be told apart,"
            f" so needs at least {least}"
        )
