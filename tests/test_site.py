"""Every page of the built book in Chromium: nothing from outside, no fault, readable by all.

Needs `make book` first, and Chromium on the path or where CHROMIUM points.
"""

import os
from pathlib import Path

import browser as chrome
import pytest
from site_check import site_pages, site_problems, source_problems

pytestmark = pytest.mark.site

ROOT = Path(__file__).resolve().parent.parent
SITE = Path(os.environ.get("ATTNLEARN_SITE", ROOT / "_build" / "html")).resolve()
NO_SITE = f"no built site at {SITE}: run `make book` first"
# Without a site there is still one test of each kind, so that it fails and says why.
PAGES = [
    str(file.relative_to(SITE)) for file, page in site_pages(SITE).items() if not page.redirects
] or ["index.html"]
PLAYERS = [
    p for p in PAGES if (SITE / p).exists() and "attn-player" in (SITE / p).read_text("utf-8")
] or PAGES[:1]
WITH_TOKENS = ["book/01_bookstore.html"]
LIMIT = 500_000


@pytest.fixture(scope="module")
def site():
    assert (SITE / "index.html").exists(), NO_SITE
    return SITE


@pytest.fixture(scope="module")
def browser(site):
    with chrome.launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def http(site):
    with chrome.served(site) as address:
        yield address


@pytest.fixture(params=["http", "file"])
def base(request, site, http):
    return http if request.param == "http" else site.as_uri() + "/"


def test_links_images_and_loads(site):
    problems = site_problems(site)
    assert not problems, "\n".join(problems)


def test_sources_give_every_image_alt_text():
    problems = source_problems(ROOT / "book")
    assert not problems, "\n".join(problems)


def test_pages_are_there(site):
    assert {"book/index.html", "book/03_masks.html"} <= set(PAGES)
    assert "book/03_masks.html" in PLAYERS, "chapter 03 has lost its figure to move"


@pytest.mark.parametrize("name", PAGES)
def test_page_from_a_server(browser, http, name):
    with chrome.visit(browser, http) as page:
        chrome.settle(page, http + name)
        faults = page.faults
        for size in (chrome.PHONE, chrome.DESKTOP):
            page.set_viewport_size(size)
            faults += [f"{size['width']} px: {fault}" for fault in chrome.layout_faults(page)]
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(f"document.documentElement.dataset.theme === '{scheme}'")
            for size in (chrome.DESKTOP, chrome.PHONE):
                page.set_viewport_size(size)
                look = f"{scheme}, {size['width']} px"
                faults += [f"{look}: {fault}" for fault in chrome.access_faults(page)]
        assert not faults, f"{name}\n" + "\n".join(faults)


@pytest.mark.parametrize("name", PAGES)
def test_page_from_a_file_on_a_phone(browser, site, name):
    address = site.as_uri() + "/"
    with chrome.visit(browser, address, viewport=chrome.PHONE) as page:
        chrome.settle(page, address + name)
        faults = page.faults + chrome.layout_faults(page)
        assert not faults, f"{name}\n" + "\n".join(faults)


def test_phone_menu_opens(browser, http):
    options = {"viewport": chrome.PHONE, "has_touch": True, "is_mobile": True}
    with chrome.visit(browser, http, **options) as page:
        chrome.settle(page, http + "book/03_masks.html")
        link = page.locator('.bd-sidebar-primary a[href$="exercises/03_masks.html"]')
        assert not link.is_visible() or link.bounding_box()["x"] < 0
        page.locator(".primary-toggle").first.tap()
        link.click(timeout=3000)
        page.wait_for_url("**/exercises/03_masks.html")


@pytest.mark.parametrize("name", PLAYERS)
def test_players_move_by_keyboard_mouse_and_touch(browser, base, name):
    with chrome.visit(browser, base, has_touch=True) as page:
        chrome.settle(page, base + name)
        faults = chrome.player_faults(page) + page.faults
        assert not faults, f"{name}\n" + "\n".join(faults)


@pytest.mark.parametrize("name", WITH_TOKENS)
def test_words_are_chosen_by_key_mouse_and_touch(browser, base, name):
    with chrome.visit(browser, base, has_touch=True) as page:
        chrome.settle(page, base + name)
        views = page.locator(".attn-tokens").all()
        assert views, "no token viewer on this page"
        faults = [fault for view in views for fault in chrome.token_faults(view)] + page.faults
        assert not faults, f"{name}\n" + "\n".join(faults)


@pytest.mark.parametrize("name", PLAYERS)
def test_players_are_light_and_need_no_widget_script(browser, http, name):
    scripts = []
    with chrome.visit(browser, http) as page:
        page.on("request", lambda r: scripts.append(r.url))
        chrome.settle(page, http + name)
        for size in page.eval_on_selector_all(
            ".attn-player", "all => all.map(p => new Blob([p.outerHTML]).size)"
        ):
            assert size < LIMIT
    assert not [url for url in scripts if "widget" in url or "require" in url]


@pytest.mark.parametrize("name", PLAYERS)
def test_players_show_their_first_frame_without_scripts(browser, site, name):
    address = site.as_uri() + "/"
    with chrome.visit(browser, address, java_script_enabled=False) as page:
        page.goto(address + name)
        for player in page.locator(".attn-player").all():
            frames = player.locator("[data-frame]")
            assert frames.first.is_visible()
            assert player.locator("[data-frame]:visible").count() == 1
            words = frames.first.get_attribute("data-words")
            assert player.locator("[aria-live]").inner_text() == " ".join(words.split())
