"""A figure to move: pre-drawn frames on a page, live widgets in a notebook, from one call."""

import itertools
import json
from html import escape
from math import prod

from attnlearn.viz.colours import CARD
from attnlearn.viz.frames import frame_html

LIMIT = 500_000  # bytes of one output: a page with a few of them still loads on a phone

# One handler on the box hears every slider in it: no ids, no script element, so that players may
# be copied, repeated on a page, or opened from a file.
MOVE = """
let n = 0;
for (const slider of this.querySelectorAll('input')) {
  const words = JSON.parse(slider.dataset.words)[slider.value];
  n = n * (+slider.max + 1) + +slider.value;
  slider.setAttribute('aria-valuetext', words);
  slider.nextElementSibling.value = words;
}
this.querySelectorAll('[data-frame]').forEach((frame, i) => {
  frame.hidden = i !== n;
  if (i === n) this.querySelector('[aria-live]').textContent = frame.dataset.words;
});
"""

STYLE = (
    CARD + ".attn-player label{display:flex;flex-wrap:wrap;align-items:center;gap:.25rem .75rem;"
    "margin:0 0 .5rem}.attn-player label span{min-width:var(--name)}.attn-player input{"
    "flex:1 1 9rem;min-width:0;max-width:22rem;height:1.75rem;accent-color:#0072b2}"
    ".attn-player output{font-weight:600;min-width:min(var(--said),100%)}"
    ".attn-player [hidden]{display:none}"
)


def explore(draw, describe, **controls):
    """Return a figure that a reader moves with a slider for each of one or two controls.

    ``draw(**values)`` gives a matplotlib Figure or an SVG string, ``describe(**values)`` the words
    for it (shown below, and read aloud); each control is ``name=[values]``. A page without a kernel
    gets every frame drawn beforehand, a live notebook gets ipywidgets that call ``draw`` again.
    Raises ``ValueError`` when the frames together are over 500 KB.
    """
    if len(controls) not in (1, 2):
        raise ValueError(f"controls: got {len(controls)}, needs one or two, each name=[values]")
    controls = {name: list(values) for name, values in controls.items()}
    for name, values in controls.items():
        if len(values) < 2:
            raise ValueError(f"{name}: got {len(values)} value(s), a slider needs at least two")
    return Player(draw, describe, controls)


class Player:
    """What ``explore`` returns; the front end picks HTML or the widget."""

    def __init__(self, draw, describe, controls):
        self.draw, self.describe, self.controls = draw, describe, controls
        self._html = self._all_frames()
        self._widget = None

    def frame(self, **values):
        """``(html, words)`` of one frame, closing the matplotlib figure that it came from."""
        words = self.describe(**values)
        if not isinstance(words, str) or not words.strip():
            raise TypeError(f"describe: returned {words!r} for {values}, needs words for the frame")
        drawing = self.draw(**values)
        html = frame_html(drawing, words)
        if hasattr(drawing, "savefig"):
            import matplotlib.pyplot as plt

            plt.close(drawing)
        return html, words

    def _all_frames(self):
        frames, size = [], 0
        for values in itertools.product(*self.controls.values()):
            html, words = self.frame(**dict(zip(self.controls, values, strict=True)))
            hidden = " hidden" if frames else ""
            frames.append(f'<div data-frame data-words="{escape(words)}"{hidden}>{html}</div>')
            if not size:
                first = words
            size += len(frames[-1].encode())
            if size > LIMIT:
                self._refuse(len(frames), size)
        sliders = "".join(_slider(name, values) for name, values in self.controls.items())
        # Room for the longest name and value: sliders line up, and keep their width as they move.
        name = max(len(_label(name)) for name in self.controls)
        said = max(len(_words(value)) for values in self.controls.values() for value in values)
        return (
            f'<div class="attn-card attn-player" style="--name:{name}ch;--said:{said}ch" '
            f'oninput="{escape(MOVE)}"><style>{STYLE}</style>'
            f'{sliders}{"".join(frames)}<p aria-live="polite">{escape(first)}</p></div>'
        )

    def _refuse(self, drawn, size):
        total = prod(len(values) for values in self.controls.values())
        raise ValueError(
            f"explore: {drawn} of {total} frames already make {size / 1000:.0f} KB, the limit is "
            f"{LIMIT // 1000} KB ({size / drawn / 1000:.1f} KB a frame). Give the controls fewer "
            f"values, draw smaller figures, or return a plain SVG from draw"
        )

    def _live(self):
        """Sliders that call ``draw`` again; None where ipywidgets is not installed."""
        try:
            import ipywidgets as widgets
        except ImportError:
            return None
        sliders = {
            name: widgets.SelectionSlider(
                options=[(_words(value), n) for n, value in enumerate(values)],
                description=_label(name),
                style={"description_width": "initial"},
            )
            for name, values in self.controls.items()
        }
        picture = widgets.HTML()

        def show(_=None):
            values = {name: self.controls[name][s.value] for name, s in sliders.items()}
            html, words = self.frame(**values)
            style = f"<style>{CARD}</style>"
            picture.value = f'<div class="attn-card">{style}{html}<p>{escape(words)}</p></div>'

        for slider in sliders.values():
            slider.observe(show, "value")
        show()
        return widgets.VBox([*sliders.values(), picture])

    def _repr_html_(self):
        return self._html

    def _repr_mimebundle_(self, include=None, exclude=None):
        bundle = {"text/plain": repr(self), "text/html": self._html}
        if self._widget is None:
            self._widget = self._live()
        if self._widget is not None:
            bundle["application/vnd.jupyter.widget-view+json"] = {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self._widget.model_id,
            }
        return bundle

    def __repr__(self):
        ranges = "; ".join(
            f"{name} {_words(values[0])} to {_words(values[-1])}"
            for name, values in self.controls.items()
        )
        return f"a figure with sliders: {ranges}"


def _slider(name, values):
    words = [_words(value) for value in values]
    return (
        f'<label><span>{escape(_label(name))}</span> <input type="range" min="0" '
        f'max="{len(values) - 1}" step="1" value="0" autocomplete="off" '
        f'aria-valuetext="{escape(words[0])}" data-words="{escape(json.dumps(words))}">'
        f"<output>{escape(words[0])}</output></label>"
    )


def _label(name):
    return name.replace("_", " ")


def _words(value):
    return f"{value:g}" if isinstance(value, float) else str(value)
