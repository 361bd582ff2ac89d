"""The built site in a real browser: what a reader's eyes, fingers and screen reader would meet."""

import functools
import http.server
import os
import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

NAMES = "chromium", "chromium-browser", "google-chrome"
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}

# The widest element that sticks out of the window and not merely out of a box that scrolls.
SIDEWAYS = """() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return null;
  const boxed = e => {
    for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
      if (getComputedStyle(p).overflowX !== 'visible') return true;
    return false;
  };
  let worst = document.body, width = 0;
  for (const e of document.body.querySelectorAll('*')) {
    const right = e.getBoundingClientRect().right;
    if (right > Math.max(width, room + 0.5) && !boxed(e)) { worst = e; width = right; }
  }
  return `${worst.outerHTML.slice(0, 120)} reaches ${Math.round(width)} of ${room} px`;
}"""

UNRENDERED = """() => [...document.querySelectorAll('.math')]
  .filter(e => !e.querySelector('mjx-container') || e.querySelector('mjx-merror, [data-mjx-error]'))
  .map(e => e.textContent.trim().slice(0, 80))"""


# axe-core needs a second for each thousand tokens of code, and one token of each kind in each kind
# of box tells as much about colours as all of them. It does not judge single characters.
THIN = """() => {
  const known = new Set();
  for (const token of document.querySelectorAll('pre span[class]')) {
    const kind = token.className + token.closest('div[class*=cell], pre').className;
    if (known.has(kind) || token.textContent.length < 2) token.remove();
    else known.add(kind);
  }
}"""


@contextmanager
def launched():
    """One Chromium for many pages; without one the tests are skipped, unless CI requires it."""
    if CHROMIUM is None or not Path(CHROMIUM).exists():
        missing = "no Chromium: install it (apt install chromium), or set CHROMIUM to its path"
        required = os.environ.get("ATTNLEARN_BROWSER") == "required"
        (pytest.fail if required else pytest.skip)(missing)
    with sync_playwright() as play:
        yield play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)


@contextmanager
def served(root):
    """Serve the folder on a free loopback port; yields its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@contextmanager
def visit(browser, base, **options):
    """A page that may only ask ``base``; ``page.faults`` lists what went wrong so far."""
    context = browser.new_context(**{"viewport": DESKTOP, **options})
    page = context.new_page()
    page.faults = faults = []

    def only_base(route):
        url = route.request.url
        if url.startswith((base, "data:", "blob:")):
            return route.continue_()
        faults.append(f"asks another host: {url}")
        return route.abort()

    context.route("**/*", only_base)
    page.on("console", lambda m: m.type == "error" and faults.append(f"console: {m.text}"))
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("requestfailed", lambda r: faults.append(f"failed: {r.url} {r.failure}"))
    page.on("response", lambda r: r.status >= 400 and faults.append(f"{r.status}: {r.url}"))
    yield page
    context.close()


def settle(page, url):
    """Open the page and wait until its mathematics is set."""
    page.goto(url, wait_until="load")
    page.evaluate("() => window.MathJax?.startup?.promise")


def layout_faults(page):
    """Sideways scroll and mathematics that was left as source."""
    wide = page.evaluate(SIDEWAYS)
    raw = page.evaluate(UNRENDERED)
    return ([f"scrolls sideways: {wide}"] if wide else []) + [f"raw mathematics: {m}" for m in raw]


def access_faults(page):
    """Violations that axe-core finds, with the first elements of each; thins out the code."""
    # Without preload=False axe fetches imported style sheets again, by the wrong address.
    page.evaluate(THIN)
    options = {"resultTypes": ["violations"], "preload": False}
    return [
        f"{v['id']} ({v['impact']}): " + " | ".join(n["html"][:160] for n in v["nodes"][:3])
        for v in Axe().run(page, options=options).response["violations"]
    ]


STATE = """player => {
  const frames = [...player.querySelectorAll('[data-frame]')];
  const seen = frames.filter(f => f.getClientRects().length);
  return {
    shown: seen.map(f => frames.indexOf(f)),
    words: seen.map(f => f.dataset.words),
    line: [player.querySelector('[aria-live]').textContent],
    said: [...player.querySelectorAll('input')].map(i => i.getAttribute('aria-valuetext')),
    printed: [...player.querySelectorAll('output')].map(o => o.value),
  };
}"""


def player_faults(page):
    """Move every slider by key, click and tap; say where a figure does not follow."""
    players = page.locator(".attn-player").all()
    faults = []
    for n, player in enumerate(players):
        others = [p.evaluate(STATE) for p in players if p is not player]
        for which, slider in enumerate(player.locator("input").all()):
            faults += [f"player {n}, slider {which}: {fault}" for fault in _move(player, slider)]
        if [p.evaluate(STATE) for p in players if p is not player] != others:
            faults.append(f"player {n}: moves another one")
    return faults


def _move(player, slider):
    """An arrow key steps, a click at the end and a tap at the start jump and come back."""
    start = player.evaluate(STATE)
    height = slider.bounding_box()["height"] / 2
    last = slider.get_attribute("max")
    moves = {
        "1": lambda: slider.press("ArrowRight"),
        last: lambda: slider.click(position={"x": slider.bounding_box()["width"] - 4, "y": height}),
        "0": lambda: slider.tap(position={"x": 4, "y": height}),
    }
    for value, move in moves.items():
        move()
        state = player.evaluate(STATE)
        if slider.input_value() != value:
            yield f"stands at {slider.input_value()}, not at {value}"
        if len(state["shown"]) != 1 or (state["shown"] == start["shown"]) != (value == "0"):
            yield f"at {value} the frames {state['shown']} are shown"
        if state["line"] != state["words"] or state["said"] != state["printed"]:
            yield f"at {value} the words do not follow: {state}"


def token_faults(view):
    """Choose the second word by key, the last by mouse and the first by tap: is each one said?"""
    words = view.locator("[role=radio]")
    names = [row.split()[0] for row in view.locator("tbody th").all_text_contents()]
    last = words.count() - 1
    ways = {
        1: lambda: words.nth(0).press("ArrowRight"),
        last: lambda: words.nth(last).hover(),
        0: lambda: words.nth(0).tap(),
    }
    faults = []
    for n, choose in ways.items():
        choose()
        line = view.locator("[aria-live]").text_content()
        chosen = [w.get_attribute("aria-checked") for w in words.all()].index("true")
        if chosen != n or not line.startswith(names[n]):
            faults.append(f"word {n} ({names[n]}) was asked, word {chosen} answers: {line}")
    return faults
