"""Weights between words: point at a word, tap it or step to it, and see where it looks."""

from html import escape

import numpy as np

from attnlearn.viz.colours import CARD
from attnlearn.viz.plots import as_numpy

LIMIT = 30_000  # bytes of one view: about 40 words that look at each other

# The numbers live in the table alone; what is painted is read from there. Handlers on the box and
# no ids, so that views may be copied, repeated on a page, or opened from a file.
SHOW = """
const asked = event.target.closest('[role=radio]');
if (!asked) return;
if (event.type === 'click') asked.focus();  // a tap, and Safari, leave the focus where it was
const words = [...this.querySelectorAll('[role=radio]')];
for (const word of words) {
  word.setAttribute('aria-checked', word === asked);
  word.tabIndex = word === asked ? 0 : -1;
}
const table = this.querySelector('table');
const row = [...table.rows[words.indexOf(asked) + 1].cells].map(cell => cell.textContent);
const keys = [...table.rows[0].cells].map(cell => cell.textContent);
this.querySelectorAll('[data-key]').forEach((key, j) => {
  key.style.setProperty('--w', row[j + 1]);
  key.lastElementChild.textContent = row[j + 1];
});
const best = [...row.keys()].slice(1).filter(j => +row[j]).sort((a, b) => row[b] - row[a]);
const said = best.slice(0, 3).map(j => keys[j] + ' ' + row[j]).join(', ');
this.querySelector('[aria-live]').textContent = row[0] + ' looks at ' + (said || 'nothing');
"""

STEP = """
const words = [...this.querySelectorAll('[role=radio]')], last = words.length - 1;
const at = words.indexOf(event.target);
const to = {ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1,
            Home: 0, End: last}[event.key];
if (at < 0 || to === undefined) return;
event.preventDefault();
const next = words[Math.min(Math.max(to, 0), last)];
next.focus();
this.onclick({target: next});
"""

# Browsers repeat this event where the mouse rests, after a tap elsewhere or when the page scrolls.
ROAM = """
const place = event.screenX + ' ' + event.screenY;
if (event.pointerType === 'touch' || place === this.place) return;
this.place = place;
this.onclick(event);
"""

# The ink on the darkest blue has a contrast of 4.8 : 1, so it need not change with the weight. No
# state changes the width of a word: words that move would slip under the pointer.
STYLE = (
    CARD + ".attn-tokens>div{display:flex;flex-wrap:wrap;gap:.45rem;margin:.5rem 0}"
    ".attn-tokens .word{font:inherit;color:#1a1a1a;background:#fff;border:1px solid #c8c8c8;"
    "border-radius:6px;padding:.3rem .5rem;margin:0;min-width:2.75rem;min-height:2.75rem;"
    "display:inline-flex;flex-direction:column;align-items:center;justify-content:center;"
    "overflow-wrap:anywhere}"
    ".attn-tokens [data-key]{background:rgb(0 114 178/calc(.8*var(--w)/var(--top)))}"
    ".attn-tokens [data-key] :last-child{font-size:13px;min-width:4ch}"
    ".attn-tokens button{cursor:pointer}"
    ".attn-tokens [aria-checked=true]{border-color:#1a1a1a;box-shadow:0 0 0 2px #1a1a1a}"
    ".attn-tokens [aria-checked=true] :first-child{text-decoration:underline}"
    ".attn-tokens button:focus-visible{outline:3px solid #d55e00;outline-offset:3px}"
    ".attn-tokens p{overflow-wrap:anywhere}"
    ".attn-tokens details{margin-top:.5rem;font-size:13px}"
    ".attn-tokens details div{overflow-x:auto}"
    ".attn-tokens table{width:auto;table-layout:auto;border-collapse:collapse;margin:.3rem 0;"
    "font-size:13px}"
    ".attn-tokens table,.attn-tokens table *{background:none;color:inherit}"
    ".attn-tokens th,.attn-tokens td{padding:.15rem .5rem;text-align:right;border:1px solid #ddd}"
)


def token_view(words, weights, *, keys=None, first=0, label="Weights between words"):
    """Show where each word looks: it becomes the query by hover, tap or arrow key.

    words: T queries; weights [T, S], each row a distribution or all zeros; keys: S words where they
    are not the queries themselves; first: the query shown to begin with, and without JavaScript.
    The deepest blue is the largest weight of the matrix. All weights are in a table below.
    Raises ``ValueError`` for other shapes, for what is no distribution, and above 30 KB.
    """
    words, keys = _names("words", words), None if keys is None else _names("keys", keys)
    weights = _checked(weights, len(words), len(words if keys is None else keys))
    if first not in range(len(words)):
        raise ValueError(f"first: got {first!r}, needs one of the queries 0 to {len(words) - 1}")
    return TokenView(words, weights, keys, first, label)


class TokenView:
    """What ``token_view`` returns: HTML on a page, a table of numbers in a terminal."""

    def __init__(self, words, weights, keys, first, label):
        self.words, self.weights, self.first, self.label = words, weights, first, str(label)
        self.keys, self.apart = (words, False) if keys is None else (keys, True)
        self.numbers = [[_number(w) for w in row] for row in weights]
        self._html = self._draw()
        size = len(self._html.encode())
        if size > LIMIT:
            raise ValueError(
                f"token_view: {len(self.words)} queries and {len(self.keys)} keys make "
                f"{size / 1000:.0f} KB, the limit is {LIMIT // 1000} KB; show fewer words"
            )

    def _repr_html_(self):
        return self._html

    def _draw(self):
        asked = escape(f"{self.label}: choose the query")
        keys = "".join(map(_key, self.keys, self.numbers[self.first])) if self.apart else ""
        return (
            f'<div class="attn-card attn-tokens" style="--top:{self.weights.max() or 1:.4g}" '
            f'onclick="{escape(SHOW)}" onpointerover="{escape(ROAM)}" '
            f'onkeydown="{escape(STEP)}"><style>{STYLE}</style><b>{escape(self.label)}</b>'
            f'<div role="radiogroup" aria-label="{asked}">{self._queries()}</div>'
            + (f"<div>{keys}</div>" if keys else "")
            + f'<p aria-live="polite">{escape(self._said())}</p>'
            f"<details><summary>as a table</summary>{self._table()}</details></div>"
        )

    def _queries(self):
        """The queries as buttons, one Tab stop; with weights where they are the keys as well."""
        out = []
        for t, word in enumerate(self.words):
            state = ("true", "0") if t == self.first else ("false", "-1")
            paint, weight = ("", "") if self.apart else _painted(self.numbers[self.first][t])
            out.append(
                f'<button type="button" role="radio" class="word" aria-checked="{state[0]}" '
                f'tabindex="{state[1]}"{paint}><span>{escape(word)}</span>{weight}</button>'
            )
        return "".join(out)

    def _said(self):
        """Where the first query looks; the script says the same of the others."""
        row = zip(_told_apart(self.keys), self.numbers[self.first], strict=True)
        best = sorted((pair for pair in row if float(pair[1])), key=lambda pair: -float(pair[1]))
        said = ", ".join(f"{name} {number}" for name, number in best[:3])
        return f"{_told_apart(self.words)[self.first]} looks at {said or 'nothing'}"

    def _table(self):
        head = "".join(f'<th scope="col">{escape(name)}' for name in _told_apart(self.keys))
        body = "".join(
            f'<tr><th scope="row">{escape(word)}' + "".join(f"<td>{number}" for number in row)
            for word, row in zip(_told_apart(self.words), self.numbers, strict=True)
        )
        return (
            f'<div role="region" tabindex="0" aria-label="{escape(self.label)}, table"><table>'
            f"<thead><tr><td>{head}<tbody>{body}</table></div>"
        )

    def __repr__(self):
        left, wide = max(map(len, self.words)), [max(5, len(name) + 1) for name in self.keys]
        rows = zip(["", *self.words], [self.keys, *self.numbers], strict=True)
        return "\n".join(
            name.rjust(left) + "".join(cell.rjust(n) for cell, n in zip(cells, wide, strict=True))
            for name, cells in rows
        )


def _key(name, number):
    paint, weight = _painted(number)
    return f'<span class="word"{paint}><span>{escape(name)}</span>{weight}</span>'


def _painted(number):
    """The attribute that colours a word by its weight, and the weight to print below it."""
    return f' data-key style="--w:{number}"', f'<span aria-hidden="true">{number}</span>'


def _number(weight):
    """Two digits; 0 alone is a key that was hidden, 0.00 a weight that is merely small."""
    return f"{weight:.2f}" if weight else "0"


def _names(argument, names):
    """Words as text; white space, which could not be seen, as Python writes it."""
    if isinstance(names, str):
        raise TypeError(f"{argument}: got one string, needs a list of words; try .split()")
    names = [str(name) for name in names]
    return [name if name.strip() else repr(name) for name in names]


def _told_apart(names):
    """The names, and the place of each that occurs twice: the (1st), cat, the (3rd)."""
    return [
        f"{name} ({_ordinal(n)})" if names.count(name) > 1 else name
        for n, name in enumerate(names, 1)
    ]


def _ordinal(n):
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def _checked(weights, T, S):
    """The weights as float [T, S], once every row is known to be a distribution or zeros."""
    weights = as_numpy(weights)
    if weights.shape != (T, S):
        raise ValueError(
            f"weights: got shape {weights.shape}, needs ({T}, {S}) for {T} queries and {S} keys"
        )
    if not (weights >= 0).all():  # NaN too
        t, j = np.argwhere(~(weights >= 0))[0]
        raise ValueError(f"weights: got {weights[t, j]} at [{t}, {j}], needs numbers from 0 to 1")
    sums = weights.sum(-1)
    wrong = ~(np.isclose(sums, 1, rtol=0, atol=0.01) | (sums == 0))
    if wrong.any():
        t = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"weights: row {t} sums to {sums[t]:.4g}, needs 1 (or 0: sees nothing)")
    return weights
