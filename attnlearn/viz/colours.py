"""The two colour maps of the book, safe for colour-blind readers and on paper.

Every figure brings its own light card, so one set of colours serves light and dark pages.
"""

WEIGHTS = "YlGnBu"  # matplotlib colour map: pale is a weight of 0, dark the largest

MASKS = {
    "seen": "#0072b2",  # blue and orange of Okabe and Ito's palette
    "hidden": "#f5f3ee",
    "partial": "#f3cb77",
    "line": "#767676",
    "ink": "#1a1a1a",
}

CARD = (
    ".attn-card{background:#fff;color:#1a1a1a;color-scheme:light;border:1px solid #c8c8c8;"
    "border-radius:6px;padding:.75rem;max-width:100%;box-sizing:border-box;"
    "font:15px/1.45 system-ui,sans-serif}"
    ".attn-card svg,.attn-card img{max-width:100%;height:auto;background:#fff}"
    ".attn-card p{margin:.5rem 0 0;color:inherit}"
)
