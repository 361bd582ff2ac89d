"""What can be told of the built site from its files alone: links, outside loads, alt text."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
LOADING_LINKS = {"stylesheet", "preload", "prefetch", "modulepreload", "icon"}
SHORTEST_ALT = 12
NAMED_BY_THEME = ("Colab logo", "Logo image", "attnlearn: to the first page")
FILE_NAME = re.compile(r"\S+\.(png|svg|jpe?g|gif|webp)$|^\S*/\S*$", re.I)


class Page(HTMLParser):
    """The ids, links, loads, images and SVGs of one page."""

    def __init__(self, html):
        super().__init__()
        self.ids, self.links, self.loads, self.images = set(), [], [], []
        self.untitled, self._svg, self.redirects = [], None, False
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        a = {name: value or "" for name, value in attributes}
        self.ids |= {a[name] for name in ("id", "name") if a.get(name)}
        if tag == "a" and a.get("href"):
            self.links.append(a["href"])
        if tag == "meta" and a.get("http-equiv", "").lower() == "refresh":
            self.redirects = True
            self.links.append(a.get("content", "").partition("url=")[2])
        if a.get(LOADING.get(tag)):
            self.loads.append(a[LOADING[tag]])
        if tag == "link" and LOADING_LINKS & set(a.get("rel", "").split()):
            self.loads.append(a.get("href", ""))
        if tag == "img":
            self.images.append((a.get("src", ""), a.get("alt")))
        if tag == "svg" and self._svg is None and a.get("aria-hidden") != "true":
            self._svg = self.getpos()[0] if a.get("role") == "img" else None
            if a.get("role") != "img":
                self.untitled.append(f"line {self.getpos()[0]}: svg without role=img")
        if tag == "title":
            self._svg = None

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag):
        if tag == "svg" and self._svg is not None:
            self.untitled.append(f"line {self._svg}: svg without title")
            self._svg = None


def site_pages(root):
    """``{path: Page}`` of every page of the site; templates under _static are none."""
    root = Path(root).resolve()
    files = [f for f in sorted(root.rglob("*.html")) if "_static" not in f.relative_to(root).parts]
    return {f: Page(f.read_text(encoding="utf-8")) for f in files}


def site_problems(root):
    """One line for each fault of the site at ``root``, naming page and place."""
    root = Path(root).resolve()
    pages = site_pages(root)
    problems = []
    for file, page in pages.items():
        found = [
            *(link_problem(root, file, link, pages) for link in page.links),
            *(load_problem(root, file, load) for load in page.loads),
            *(alt_problem(*image) for image in page.images),
            *page.untitled,
        ]
        problems += [f"{file.relative_to(root)}: {problem}" for problem in found if problem]
    return problems


def target(root, file, reference):
    """The file and fragment that ``reference`` on the page ``file`` means; None when outside."""
    url = urlsplit(reference)
    if url.scheme or url.netloc:
        return None, None
    path = unquote(url.path)
    if not path:
        aim = file
    else:
        aim = (root / path.lstrip("/") if path.startswith("/") else file.parent / path).resolve()
    return (aim / "index.html" if aim.is_dir() else aim), unquote(url.fragment)


def link_problem(root, file, link, pages):
    aim, fragment = target(root, file, link)
    if aim is None:
        return None
    if not aim.exists():
        return f"broken link {link}"
    if fragment and aim in pages and fragment not in pages[aim].ids:
        return f"no such place on the page: {link}"
    return None


def load_problem(root, file, load):
    if load.startswith("data:"):
        return None
    aim, _ = target(root, file, load)
    if aim is None:
        return f"loads from outside: {load}"
    return None if aim.exists() else f"missing file {load}"


def alt_problem(source, alt):
    """Alt text must say something; the theme's logos only have to be named."""
    alt = (alt or "").strip()
    if alt in NAMED_BY_THEME:
        return None
    if len(alt) < SHORTEST_ALT or FILE_NAME.search(alt):
        return f"image without useful alt text ({alt!r}): {source[:60]}"
    return None


def source_problems(folder):
    """Images in the sources book/*.md that have no alt text, with file and line."""
    problems = []
    for file in sorted(Path(folder).glob("*.md")):
        lines = file.read_text(encoding="utf-8").splitlines()
        for n, line in enumerate(lines):
            if _image_without_alt(line) or _directive_without_alt(lines, n):
                problems.append(f"{file.name}:{n + 1}: image without alt text: {line.strip()}")
    return problems


def _image_without_alt(line):
    line = re.sub(r"`[^`]*`", "", line)
    tags = re.findall(r"<img\b[^>]*>", line)
    return re.search(r"!\[\s*\]\(", line) or any(
        not re.search(r'\balt\s*=\s*"[^"]+"', tag) for tag in tags
    )


def _directive_without_alt(lines, n):
    if not re.match(r"\s*(`{3,}|:{3,})\{(figure|image)\}", lines[n]):
        return False
    for line in lines[n + 1 :]:
        if re.match(r"\s*:alt:\s*\S", line):
            return False
        if not re.match(r"\s*:[\w-]+:", line):
            return True
    return True
