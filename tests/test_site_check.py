"""Every check of the site catches the fault it is there for, planted on a small page."""

from contextlib import ExitStack

import browser as chrome
import pytest
from site_check import Page, alt_problem, site_problems, source_problems

from attnlearn.viz import explore

GOOD = '<title>t</title><h1 id="top">t</h1><a href="#top">up</a>'


def problems(tmp_path, html, **others):
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    for name, content in others.items():
        (tmp_path / f"{name}.html").write_text(content, encoding="utf-8")
    return site_problems(tmp_path)


def test_a_good_page_has_no_problem(tmp_path):
    (tmp_path / "x.png").write_bytes(b"")
    page = (
        GOOD + '<img src="x.png" alt="A causal mask of four tokens."><a href="other.html#a">o</a>'
        '<svg role="img"><title>A causal mask</title></svg><a href="https://arxiv.org/abs/1">a</a>'
    )
    assert problems(tmp_path, page, other='<p id="a">a</p>') == []


@pytest.mark.parametrize(
    ("html", "words"),
    [
        ('<a href="gone.html">x</a>', "broken link gone.html"),
        ('<a href="other.html#b">x</a>', "no such place on the page: other.html#b"),
        ('<a href="#nowhere">x</a>', "no such place on the page: #nowhere"),
        ('<meta http-equiv="Refresh" content="0; url=gone.html">', "broken link gone.html"),
        ('<script src="https://cdn.jsdelivr.net/x.js"></script>', "loads from outside"),
        ('<script src="//unpkg.com/x.js"></script>', "loads from outside"),
        ('<link rel="stylesheet" href="https://fonts.net/x.css">', "loads from outside"),
        ('<link rel="shortcut icon" href="gone.ico">', "missing file gone.ico"),
        ('<img src="gone.png" alt="A causal mask of four tokens.">', "missing file gone.png"),
        ('<img src="data:image/png;base64,AA">', "image without useful alt text"),
        ('<svg role="img"><path d="M0 0"/></svg>', "line 1: svg without title"),
        ("<svg><title>A causal mask</title></svg>", "line 1: svg without role=img"),
    ],
)
def test_a_planted_fault_is_found(tmp_path, html, words):
    (found,) = problems(tmp_path, html, other='<p id="a">a</p>')
    assert found.startswith("page.html: ")
    assert words in found


@pytest.mark.parametrize(
    "alt",
    [None, "", "   ", "a plot", "_images/0a1b.png", "../_images/908aa6eff133", "figure_one.svg"],
)
def test_alt_text_that_says_nothing_is_found(alt):
    assert "without useful alt text" in alt_problem("x.png", alt)


def test_the_title_of_the_page_is_not_the_title_of_a_drawing():
    page = Page('<title>Masks</title><svg role="img"></svg><svg role="img"><title>a</title></svg>')
    assert page.untitled == ["line 1: svg without title"]


@pytest.mark.parametrize(
    "source",
    [
        "![](mask.png)",
        '<img src="mask.png">',
        "```{figure} mask.png\n:width: 3\n```",
        ":::{image} x",
    ],
)
def test_a_source_image_without_alt_text_is_found(tmp_path, source):
    (tmp_path / "01_a.md").write_text(f"# A\n\n{source}\n", encoding="utf-8")
    (found,) = source_problems(tmp_path)
    assert found.startswith("01_a.md:3: image without alt text")


def test_source_images_with_alt_text_and_code_pass(tmp_path):
    text = '![A mask](x)\n`![](x)`\n<img src="x" alt="A mask">\n```{figure} x\n:alt: A mask\n```\n'
    (tmp_path / "01_a.md").write_text(text, encoding="utf-8")
    assert source_problems(tmp_path) == []


@pytest.fixture(scope="module")
def browser():
    with chrome.launched() as browser:
        yield browser


@pytest.fixture
def opened(browser, tmp_path):
    """Open a planted page on a phone, with touch."""
    with ExitStack() as stack:

        def look(body):
            html = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>t</title>'
            html += (
                f'<link rel="icon" href="data:,"></head><body><main><h1>t</h1>{body}</main></body>'
            )
            (tmp_path / "page.html").write_text(html, encoding="utf-8")
            address = tmp_path.as_uri() + "/"
            visit = chrome.visit(browser, address, viewport=chrome.PHONE, has_touch=True)
            page = stack.enter_context(visit)
            chrome.settle(page, address + "page.html")
            return page

        yield look


def all_faults(page):
    return page.faults + chrome.layout_faults(page) + chrome.access_faults(page)


SOUND = '<div style="overflow-x:auto" tabindex="0"><p style="width:900px">x</p></div>'


@pytest.mark.site
def test_a_sound_page_passes_in_the_browser(opened):
    assert all_faults(opened(SOUND)) == []


@pytest.mark.site
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('<p style="width:900px" class="wide">x</p>', 'class="wide"'),
        ("<script>fetch('https://example.org/x')</script>", "another host: https://example.org"),
        ("<img src='gone.png' alt='a mask of four tokens'>", "failed: file://"),
        ("<script>undefined_name()</script>", "script: undefined_name is not defined"),
        ("<script>console.error('trouble')</script>", "console: trouble"),
        ("<input type='range'>", "label (critical)"),
        ("<p style='color:#bbb'>pale</p>", "color-contrast (serious)"),
        (
            "<pre><span class='s'>'</span><span class='s' style='color:#bbb'>ab</span></pre>",
            'class="s"',
        ),
        ("<div class='math'>\\(x\\)</div>", "raw mathematics: \\(x\\)"),
    ],
)
def test_a_fault_planted_in_the_browser_is_found(opened, body, words):
    assert words in "\n".join(all_faults(opened(body)))


def figure():
    def draw(a, b):
        return f'<svg width="80" height="20"><text y="15">{a} {b}</text></svg>'

    return explore(
        draw, lambda a, b: f"a is {a} & b <{b}>", a=[1, 2, 3], b=["x", '"y"']
    )._repr_html_()


@pytest.mark.site
def test_two_players_on_a_page_move_alone(opened):
    page = opened(figure() + figure())
    assert chrome.player_faults(page) == []
    assert all_faults(page) == []


@pytest.mark.site
@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("oninput=", "onnothing=", "at 1 the frames [0] are shown"),
        ("frame.hidden = i !== n", "frame.hidden = false", "frames [0, 1, 2, 3, 4, 5]"),
        ("aria-valuetext&#x27;", "aria-other&#x27;", "at 1 the words do not follow"),
        ("frame.dataset.words", "frame.dataset.frame", "at 1 the words do not follow"),
        ("<input", '<input onkeydown="return false"', "stands at 0, not at 1"),
        ("this.", "document.", "player 0: moves another one"),
    ],
)
def test_a_broken_player_is_found(opened, before, after, words):
    html = figure()
    assert before in html
    page = opened(html.replace(before, after) + figure())
    assert words in "\n".join(chrome.player_faults(page))
