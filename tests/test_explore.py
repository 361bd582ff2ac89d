"""Figures that move: frames on a page, widgets in a notebook, and what is refused."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from attnlearn.viz import explore
from attnlearn.viz.frames import frame_html, own_ids


class Parts(HTMLParser):
    """Sliders, frames and texts of a player."""

    def __init__(self, html):
        super().__init__()
        self.sliders, self.frames, self.line, self._live = [], [], "", False
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        if tag == "input":
            self.sliders.append(a)
        if "data-frame" in a:
            self.frames.append(a)
        self._live = "aria-live" in a

    def handle_data(self, data):
        self.line += data if self._live else ""

    def handle_endtag(self, tag):
        self._live = False


def svg_of(**values):
    return f"<svg><text>{values}</text></svg>".replace("'", "")


def repr_of(**values):
    return repr(values)


def test_frames_are_the_product_of_two_controls_and_one_is_shown():
    player = explore(svg_of, lambda a, b: f"a={a}, b={b}", a=[1, 2, 3], b=[0.5, 0.25])
    parts = Parts(player._repr_html_())
    assert [slider["max"] for slider in parts.sliders] == ["2", "1"]
    assert [json.loads(slider["data-words"]) for slider in parts.sliders] == [
        ["1", "2", "3"],
        ["0.5", "0.25"],
    ]
    assert [f["data-words"] for f in parts.frames] == [
        f"a={a}, b={b}" for a in (1, 2, 3) for b in (0.5, 0.25)
    ]
    assert ["hidden" in frame for frame in parts.frames] == [False] + [True] * 5
    assert parts.line == "a=1, b=0.5"
    assert parts.sliders[0]["aria-valuetext"] == "1"


def test_words_of_a_player_cannot_break_the_page():
    words = "a < b & \"c\" 'd' </p><script>"
    html = explore(
        lambda **_: "<svg></svg>", lambda **_: words, the_name=[words, "x"]
    )._repr_html_()
    parts = Parts(html)
    assert parts.line == parts.frames[0]["data-words"] == words
    assert json.loads(parts.sliders[0]["data-words"])[0] == words
    assert "<script" not in html
    assert "<label><span>the name</span> <input" in html


def test_a_slider_is_named_and_the_text_is_announced():
    html = explore(svg_of, lambda a: f"a={a}", a=[1, 2])._repr_html_()
    assert re.search(
        r'<label><span>a</span> <input type="range"[^>]*><output>1</output></label>', html
    )
    assert '<p aria-live="polite">' in html


def test_a_player_over_the_limit_is_refused_with_its_size():
    def heavy(a):
        return f"<svg><desc>{'x' * 60_000}</desc></svg>"

    with pytest.raises(ValueError, match=r"9 of 12 frames already make 5\d\d KB.* 500 KB"):
        explore(heavy, lambda a: "heavy", a=range(12))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: explore(svg_of, str), ValueError, "controls: got 0"),
        (lambda: explore(svg_of, str, a=[1], b=[1, 2]), ValueError, "a: got 1 value"),
        (lambda: explore(svg_of, str, a=[1, 2], b=[1, 2], c=[1, 2]), ValueError, "got 3"),
        (lambda: explore(svg_of, lambda a: "", a=[1, 2]), TypeError, "describe: returned ''"),
        (lambda: explore(svg_of, lambda a: 7, a=[1, 2]), TypeError, "describe: returned 7"),
        (lambda: explore(lambda a: "<svg/>", repr_of, a=[1, 2]), TypeError, "draw: returned str"),
        (lambda: explore(lambda a: 3, repr_of, a=[1, 2]), TypeError, "draw: returned int"),
    ],
)
def test_explore_names_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call()


def curve(a):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(3, 2))
    axes.plot(np.sin(a * np.linspace(0, 6, 50)), "o-")
    axes.set(title=f"a < {a}")
    return figure


def test_figures_become_svgs_that_share_a_page():
    html = explore(curve, lambda a: f"A sine, {a} & more", a=[1, 2])._repr_html_()
    assert html.count('<svg role="img"') == html.count("<title>A sine, ") == 2
    ids = re.findall(r' id="([^"]+)"', html)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', html))
    assert len(ids) == len(set(ids))
    assert used == set(ids) != set()
    assert "<style type" not in html
    assert "dc:date" not in html


def test_many_points_become_a_png_with_the_words_as_alt_text():
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(2, 2))
    axes.scatter(*np.random.default_rng(0).random((2, 3000)), s=1)
    html = frame_html(figure, 'many "points"')
    plt.close(figure)
    assert html.startswith('<img width="')
    assert 'alt="many &quot;points&quot;"' in html


def test_own_ids_keeps_what_is_referred_to():
    svg = '<g id="a"><path id="b"/><use href="#b"/><g clip-path="url(#c)"/><g id="c"/></g>'
    prefix = re.search(r'href="#(.*)b"', own_ids(svg))[1]
    expected = (
        svg.replace(' id="a"', "").replace('"b"', f'"{prefix}b"').replace('"c"', f'"{prefix}c"')
    )
    assert own_ids(svg) != own_ids(svg)
    assert re.sub(r"attn\d+-", "", own_ids(svg)) == expected.replace(prefix, "").replace(prefix, "")


def test_a_fresh_process_draws_the_same_bytes():
    code = (
        "import sys; sys.path.insert(0, 'tests'); from test_explore import *;"
        "print(explore(curve, lambda a: f'a={a}', a=[1, 2])._repr_html_())"
    )
    once, again = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    assert once.stdout == again.stdout != ""


def test_explore_leaves_no_figure_open():
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    explore(curve, lambda a: f"a={a}", a=[1, 2])
    assert plt.get_fignums() == before


def test_a_live_notebook_gets_sliders_that_call_draw_again():
    pytest.importorskip("ipywidgets", reason="not installed")
    drawn = []

    def draw(a, b):
        drawn.append((a, b))
        return svg_of(a=a, b=b)

    player = explore(draw, lambda a, b: f"a={a} & b={b}", a=[1, 2], b=["x", "y"])
    bundle = player._repr_mimebundle_()
    assert bundle["text/html"] == player._repr_html_()
    assert bundle["text/plain"] == "a figure with sliders: a 1 to 2; b x to y"
    view = bundle["application/vnd.jupyter.widget-view+json"]
    assert view == player._repr_mimebundle_()["application/vnd.jupyter.widget-view+json"]

    a, b, picture = player._widget.children
    assert (a.description, b.description) == ("a", "b")
    drawn.clear()
    b.value = 1
    a.value = 1
    assert drawn == [(1, "y"), (2, "y")]
    assert "a=2 &amp; b=y" in picture.value
    assert "{a: 2, b: y}" in picture.value


def test_without_ipywidgets_the_page_still_moves(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    bundle = explore(svg_of, lambda a: f"a={a}", a=[1, 2])._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
