"""One drawing as HTML: the smaller of an inline SVG and a PNG."""

import base64
import io
import itertools
import re
from html import escape

_serial = itertools.count()


def frame_html(drawing, text):
    """Turn a matplotlib Figure or an SVG string into HTML that carries ``text`` for readers.

    Raises ``TypeError`` for any other drawing.
    """
    if isinstance(drawing, str) and re.fullmatch(r"\s*<svg\b.*</svg>\s*", drawing, re.S):
        return _name_svg(drawing.strip(), text)
    if hasattr(drawing, "savefig"):
        return min(_as_svg(drawing, text), _as_png(drawing, text), key=len)
    raise TypeError(
        f"draw: returned {type(drawing).__name__}, "
        f"needs a matplotlib Figure or a string <svg ...>...</svg>"
    )


def _as_png(figure, text):
    png = _save(figure, format="png", dpi=144)
    width = round(int.from_bytes(png[16:20], "big") / 2)  # dots of the PNG header, two a pixel
    data = base64.b64encode(png).decode()
    return f'<img width="{width}" alt="{escape(text)}" src="data:image/png;base64,{data}">'


def _as_svg(figure, text):
    """Text stays text, which is smaller than outlines; no date, no style that leaks to the page."""
    import matplotlib as mpl

    nothing = dict.fromkeys(["Creator", "Date", "Format", "Type"])
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "attnlearn"}):
        svg = _save(figure, format="svg", metadata=nothing).decode()
    svg = re.sub(r"<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.S)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.S)
    svg = svg.replace("<svg", '<svg stroke-linejoin="round" stroke-linecap="butt"', 1)
    svg = re.sub(r"'DejaVu Sans',[^;\"]*sans-serif", "'DejaVu Sans', sans-serif", svg)
    svg = re.sub(r"\s+", " ", re.sub(r">\s+<", "><", svg))
    return _name_svg(own_ids(svg.strip()), text)


def _save(figure, **options):
    buffer = io.BytesIO()
    figure.savefig(buffer, facecolor="white", bbox_inches="tight", **options)
    return buffer.getvalue()


def own_ids(svg):
    """Rename the ids that ``svg`` refers to, drop the rest: many drawings share one page."""
    prefix = f"attn{next(_serial)}-"
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
    svg = re.sub(
        r' id="([^"]*)"',
        lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "",
        svg,
    )
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", svg)


def _name_svg(svg, text):
    """Give an SVG a role and a title, unless it says itself what it shows."""
    start, rest = svg[4 : svg.index(">")], svg[svg.index(">") + 1 :]
    role = "" if " role=" in start else ' role="img"'
    title = "" if "<title>" in rest else f"<title>{escape(text)}</title>"
    return f"<svg{role}{start}>{title}{rest}"
