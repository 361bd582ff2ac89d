"""Masks and weights: what is drawn, what is said of it, and what is refused."""

import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from attnlearn.masks import Causal, Dense, Dilated, Full, Mask, Window, padding
from attnlearn.viz import MASKS, WEIGHTS, heatmap, mask_svg, show_mask

SVG = "{http://www.w3.org/2000/svg}"


def drawn_cells(svg, T, S):
    """Read the matrix back from the strokes of the picture."""
    seen = np.zeros((T, S), bool)
    path = re.search(rf'stroke="{MASKS["seen"]}"[^>]* d="([^"]*)"', svg)
    x = y = 0
    for move, step in re.findall(r"([Mmh])([-\d. ]+)", path[1] if path else ""):
        if move == "M":
            x, y = (int(float(n)) for n in step.split())
        elif move == "m":
            x += int(step.split()[0])
        else:
            seen[y, x : x + int(step)] = True
            x += int(step)
    return seen


@pytest.mark.parametrize(
    ("mask", "T", "S"),
    [
        (Causal(), 5, 5),
        (Causal(), 2, 5),
        (Causal(), 5, 2),
        (~Full(), 3, 3),
        (Dilated(3), 64, 64),
        (Causal() & Window(4), 1, 33),
        (Dense(np.random.default_rng(0).random((9, 7)) < 0.5), 9, 7),
    ],
)
def test_a_drawing_shows_the_mask(mask, T, S):
    svg = mask_svg(mask, T, S)
    np.testing.assert_array_equal(drawn_cells(svg, T, S), mask.dense(T, S))
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.find(f"{SVG}title").text.startswith("Mask ")


def test_a_drawing_says_what_it_shows():
    words = ElementTree.fromstring(mask_svg(Causal(), 2, 4)).find(f"{SVG}desc").text
    assert words == "7 of 8 pairs are seen. Query 2 sees keys 0 to 2. Query 3 sees keys 0 to 3."
    nothing = ElementTree.fromstring(mask_svg(~Full(), 1, 4)).find(f"{SVG}desc").text
    assert nothing == "0 of 4 pairs are seen. Query 3 sees no key."
    holes = ElementTree.fromstring(mask_svg(Dilated(2), 1, 6)).find(f"{SVG}desc").text
    assert holes == "3 of 6 pairs are seen. Query 5 sees keys 1, 3, 5."


def test_a_drawing_stays_small_and_has_no_ids():
    assert len(mask_svg(Causal(), 64, 64)) < 3_000
    assert len(mask_svg(Dilated(2), 64, 64)) < 15_000
    assert " id=" not in mask_svg(Causal(), 8, 8, block=(4, 4))


def test_tiles_have_letters_colours_and_words():
    svg = mask_svg(Causal(), 12, 12, block=(4, 4))
    root = ElementTree.fromstring(svg)
    letters = [text.text for text in root.iter(f"{SVG}text") if text.text in ("E", "P", "F")]
    assert letters == ["P", "E", "E", "F", "P", "E", "F", "F", "P"]
    assert {text.text for text in root.iter(f"{SVG}text")} >= {"F full", "P partial", "E empty"}
    assert "3 full, 3 partial, 3 empty" in root.find(f"{SVG}desc").text


def test_a_ragged_tile_ends_at_the_edge():
    root = ElementTree.fromstring(mask_svg(Full(), 5, 7, block=(4, 4)))
    tiles = next(p for p in root.iter(f"{SVG}path") if p.get("fill") == MASKS["seen"])
    corners = [tuple(map(int, xy)) for xy in re.findall(r"H(\d+)V(\d+)", tiles.get("d"))]
    assert corners == [(7, 4), (7, 5)]


def test_a_huge_mask_is_drawn_by_tiles_without_its_matrix():
    class Blind(type(Causal())):
        def dense(self, T, S):
            raise AssertionError("the matrix has 64 GiB")

    svg = mask_svg(Blind(), 131_072, 131_072)
    assert "2016 full, 64 partial, 2016 empty" in svg
    assert len(svg) < 20_000
    assert show_mask(Blind(), T=131_072)._repr_html_()


def test_tokens_label_both_axes_and_are_escaped():
    svg = mask_svg(Full(), 2, 3, queries=["a<b", "&"], keys=["the", '"cat"', "s>t"])
    words = [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert words[:5] == ["a<b", "&", "the", '"cat"', "s>t"]


class Named(Mask):
    def __call__(self, i, j):
        return (i >= j) & (i == i)

    def __repr__(self):
        return "Named('<b>&\"')"


def test_names_cannot_break_the_page():
    html = show_mask(Named(), T=3)._repr_html_()
    assert "<b>" not in html
    assert "Named(&#x27;&lt;b&gt;&amp;&quot;&#x27;)" in html
    ElementTree.fromstring(html)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mask_svg(Causal(), 0, 3), "T=0"),
        (lambda: mask_svg(Causal(), 3, 3, block=(0, 2)), "block"),
        (lambda: mask_svg(Causal(), 3, 3, block=(2,)), "block"),
        (lambda: mask_svg(Causal(), 4096, 4096, block=(8, 8)), r"512 x 512 tiles.*\(64, 64\)"),
        (lambda: mask_svg(Causal(), 3, 3, keys=["a"]), "keys: got 1 labels"),
        (lambda: mask_svg(padding([1, 2]), 3, 3), "use show_mask"),
        (lambda: show_mask(T=3), "no mask"),
        (lambda: show_mask(Causal(), T=3, labels=["a", "b"]), "labels: got 2 for 1"),
        (lambda: show_mask(Causal(), T=-1), "-1"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_panels_give_each_example_and_the_same_in_words():
    shown = show_mask(Causal(), padding([2, 1]), T=2, S=3)
    html = shown._repr_html_()
    assert html.count("<svg") == html.count("as text</summary>") == 3
    assert "<li>Query 1 sees keys 0 to 1.</li>" in html
    first, second, third = repr(shown).split("\n\n")
    assert first == "Causal()\n##.\n###"
    assert second.endswith("example 0\n##.\n##.")
    assert third.endswith("example 1\n#..\n#..")


def test_panels_with_tiles_list_each_row_of_tiles():
    html = show_mask(Causal(), T=8, block=(4, 4))._repr_html_()
    assert "<li>Tile row 0: partial 0; empty 1.</li>" in html
    assert "<li>Tile row 1: full 0; partial 1.</li>" in html


def test_importing_viz_loads_numpy_alone():
    code = (
        "import sys, attnlearn.viz;"
        "print(sorted({'matplotlib', 'ipywidgets', 'torch', 'IPython'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_heat_map_shows_the_weights_and_their_labels():
    weights = np.array([[1.0, 0.0, np.nan], [0.25, 0.25, 0.5]])
    figure = heatmap(weights, queries=["a", "b"], keys=["the", "cat", "sat"], title="head 0")
    axes = figure.axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array().filled(np.nan), weights)
    assert axes.images[0].get_clim() == (0, 1)
    assert axes.images[0].get_cmap().name == WEIGHTS
    assert [t.get_text() for t in axes.get_xticklabels()] == ["the", "cat", "sat"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b"]
    assert [t.get_text() for t in axes.texts] == ["1.00", "0.00", "nan", "0.25", "0.25", "0.50"]


def test_a_heat_map_takes_a_tensor_with_gradients():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    weights = torch.full((2, 2), 0.5, requires_grad=True, dtype=torch.bfloat16)
    assert heatmap(weights).axes[0].images[0].get_array().max() == 0.5


@pytest.mark.parametrize(
    ("weights", "labels", "words"),
    [
        (np.ones((2, 3, 3)), {}, r"shape \(2, 3, 3\)"),
        (np.ones(3), {}, r"shape \(3,\)"),
        (np.ones((0, 3)), {}, r"shape \(0, 3\)"),
        (np.ones((2, 2)), {"keys": ["a"]}, "keys: got 1 labels for 2"),
    ],
)
def test_a_heat_map_refuses_other_shapes(weights, labels, words):
    with pytest.raises(ValueError, match=words):
        heatmap(weights, **labels)


def luminance(colour):
    rgb = np.array([int(colour[n : n + 2], 16) for n in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize(
    ("one", "other", "least"),
    [("seen", "hidden", 3), ("seen", "partial", 3), ("line", "hidden", 3), ("ink", "partial", 4.5)],
)
def test_colours_differ_in_brightness(one, other, least):
    dark, pale = sorted(luminance(MASKS[name]) for name in (one, other))
    assert (pale + 0.05) / (dark + 0.05) >= least


def test_queries_are_called_by_their_labels():
    svg = mask_svg(Causal(), 2, 2, queries=["the", "cat"])
    assert "Query the sees key 0." in svg
    assert "Query cat sees keys 0 to 1." in svg
