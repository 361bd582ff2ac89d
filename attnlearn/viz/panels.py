"""Several masks side by side, each with the same thing in words."""

from html import escape

import numpy as np

from attnlearn.viz.colours import CARD
from attnlearn.viz.grid import CELLS, mask_svg
from attnlearn.viz.words import row_sentences, tile_sentences, tile_words


class One:
    """One matrix of a mask that differs per example or head, seen through the same two methods."""

    def __init__(self, mask, index, name):
        self.mask, self.index, self.name = mask, index, name

    def __repr__(self):
        return self.name

    def dense(self, T, S):
        return self._own(self.mask.dense(T, S))

    def blocks(self, T, S, bq, bk):
        return self._own(self.mask.blocks(T, S, bq, bk))

    def _own(self, array):
        return np.asarray(array)[self.index]


class MaskPanels:
    """What ``show_mask`` returns: HTML on a page, rows of # and . in a terminal."""

    def __init__(self, panels, T, S, block, queries, keys):
        self.panels, self.T, self.S, self.block = panels, T, S, block
        self.queries, self.keys = queries, keys

    def _repr_html_(self):
        figures = "".join(self._figure(label, mask) for label, mask in self.panels)
        style = (
            ".attn-masks{display:flex;flex-wrap:wrap;gap:1rem}.attn-masks>div{max-width:100%}"
            ".attn-masks code,.attn-masks details{max-width:17rem}"
            ".attn-masks code{display:block;margin:0 0 .35rem;padding:0;border:0;background:none;"
            "color:inherit;font:13px/1.4 monospace;overflow-wrap:anywhere}"
            ".attn-masks details{margin:0;font-size:13px}"
            ".attn-masks ul{margin:.3rem 0;padding-left:1.1rem}"
        )
        return f'<div class="attn-card attn-masks"><style>{CARD}{style}</style>{figures}</div>'

    def _figure(self, label, mask):
        svg = mask_svg(mask, self.T, self.S, block=self.block, queries=self.queries, keys=self.keys)
        items = "".join(f"<li>{escape(line)}</li>" for line in self._sentences(mask))
        return (
            f"<div><code>{escape(label)}</code>{svg}<details>"
            f'<summary aria-label="as text: {escape(label)}">as text</summary>'
            f"<ul>{items}</ul></details></div>"
        )

    def _sentences(self, mask):
        T, S = self.T, self.S
        if max(T, S) <= CELLS:
            lines = row_sentences(mask.dense(T, S), T, S, self.queries)
            block = self.block
        else:
            lines = []
            block = self.block or (-(-T // CELLS), -(-S // CELLS))
        if block is None:
            return lines
        tiles = np.asarray(mask.blocks(T, S, *block))
        return [*tile_words(tiles, block), *tile_sentences(tiles), *lines]

    def __repr__(self):
        return "\n\n".join(f"{label}\n{self._picture(mask)}" for label, mask in self.panels)

    def _picture(self, mask):
        if max(self.T, self.S) > CELLS:
            return "\n".join(self._sentences(mask))
        rows = mask.dense(self.T, self.S)
        return "\n".join("".join("#" if seen else "." for seen in row) for row in rows)


def show_mask(*masks, T, S=None, block=None, labels=None, queries=None, keys=None):
    """Show masks side by side over T queries and S keys (default T), with words for each.

    A mask that differs per example or head gives one picture for each. ``block=(bq, bk)`` adds the
    tile map; ``labels`` are the captions (default: each mask's own name).
    """
    if not masks:
        raise ValueError("show_mask: got no mask, needs at least one")
    if labels is not None and len(labels) != len(masks):
        raise ValueError(f"labels: got {len(labels)} for {len(masks)} masks")
    S = T if S is None else S
    panels = []
    for n, mask in enumerate(masks):
        label = repr(mask) if labels is None else str(labels[n])
        # One tile per matrix tells the leading axes without building any [T, S].
        lead = np.shape(mask.blocks(T, S, T, S))[:-2]
        for index in np.ndindex(lead):
            name = label + _which(index, lead)
            panels.append((name, One(mask, index, name)))
    shown = MaskPanels(panels, T, S, block, queries, keys)
    shown._repr_html_()  # wrong arguments fail here, where they were given
    return shown


def _which(index, lead):
    """``, example 1`` or ``, head 2`` for the matrix at ``index`` of ``[B, H]``."""
    names = ("example", "head")[2 - len(lead) :]
    return "".join(f", {name} {i}" for name, i, n in zip(names, index, lead, strict=True) if n > 1)
