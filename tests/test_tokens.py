"""Words that look at words: what is shown, what a screen reader gets, and what is refused."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from attnlearn.viz.tokens import token_view

CAT = ["the", "cat", "chases", "the", "mouse"]
TOLD = ["the (1st)", "cat", "chases", "the (4th)", "mouse"]
WEIGHTS = np.array(
    [
        [0.5, 0.5, 0, 0, 0],
        [0.001, 0.009, 0.99, 0, 0],
        [0, 0.5, 0, 0.2, 0.3],
        [0, 0, 0, 0, 0],
        [0.2, 0.2, 0.2, 0.2, 0.2],
    ]
)


class Reader(HTMLParser):
    """The texts of a view by their place: words of the row, rows of the table, the live line."""

    def __init__(self, html):
        super().__init__()
        self.queries, self.keys, self.table, self.line = [], [], [], ""
        self.place = None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "word" in attrs.get("class", ""):
            self.place = []
            (self.queries if attrs.get("role") == "radio" else self.keys).append(self.place)
        elif tag == "tr":
            self.table.append([])
        elif tag in ("th", "td"):
            self.place = []
            self.table[-1].append(self.place)
        elif "aria-live" in attrs:
            self.place = self.said = []

    def handle_data(self, text):
        if self.place is not None:
            self.place.append(text)

    def handle_endtag(self, tag):
        if tag in ("button", "table", "p"):
            self.place = None


def read(*args, **options):
    return Reader(token_view(*args, **options)._repr_html_())


def numbers(html):
    return np.array([[float(cell[0]) for cell in row[1:]] for row in Reader(html).table[1:]])


def test_the_table_holds_every_weight():
    view = read(CAT, WEIGHTS)
    head, *body = view.table
    assert [cell[0] for cell in head[1:]] == TOLD
    assert [row[0][0] for row in body] == TOLD
    assert [cell[0] for cell in body[0][1:]] == ["0.50", "0.50", "0", "0", "0"]
    shown = numbers(token_view(CAT, WEIGHTS)._repr_html_())
    assert abs(shown - WEIGHTS).max() <= 0.005


def test_hidden_is_told_from_small():
    cells = [cell[0] for cell in read(CAT, WEIGHTS).table[2][1:]]
    assert cells == ["0.00", "0.01", "0.99", "0", "0"]


def test_the_first_word_is_shown_without_script():
    view = read(CAT, WEIGHTS)
    first = [["the", "0.50"], ["cat", "0.50"], ["chases", "0"], ["the", "0"], ["mouse", "0"]]
    assert view.queries == first
    assert "".join(view.said) == "the (1st) looks at the (1st) 0.50, cat 0.50"
    assert not view.keys


def test_another_word_may_be_shown_first():
    html = token_view(CAT, WEIGHTS, first=2)._repr_html_()
    view = Reader(html)
    numbers = [weight for _, weight in view.queries]
    assert numbers == ["0", "0.50", "0", "0.20", "0.30"]
    assert "".join(view.said) == "chases looks at cat 0.50, mouse 0.30, the (4th) 0.20"
    assert html.count('aria-checked="true" tabindex="0"') == 1
    assert re.search(r'aria-checked="true"[^>]*><span>chases<', html)
    apart = read(["who", "what"], [[1, 0], [0.25, 0.75]], keys=["le", "chat"], first=1)
    assert apart.keys == [["le", "0.25"], ["chat", "0.75"]]
    assert "".join(apart.said) == "what looks at chat 0.75, le 0.25"


@pytest.mark.parametrize("first", [-1, 5, 0.5, "chases"])
def test_the_first_word_is_one_of_the_queries(first):
    with pytest.raises(ValueError, match=r"first: got .*, needs one of the queries 0 to 4"):
        token_view(CAT, WEIGHTS, first=first)


def test_words_that_occur_twice_are_told_apart():
    names = ["a"] * 23 + ["once"]
    head = [cell[0] for cell in read(names, np.eye(24)).table[0][1:]]
    assert head[:4] == ["a (1st)", "a (2nd)", "a (3rd)", "a (4th)"]
    assert head[10:13] == ["a (11th)", "a (12th)", "a (13th)"]
    assert head[20:] == ["a (21st)", "a (22nd)", "a (23rd)", "once"]
    assert "".join(read(["b"], [[0.25, 0.75]], keys=["a", "a"]).said) == (
        "b looks at a (2nd) 0.75, a (1st) 0.25"
    )


def test_other_keys_have_a_row_of_their_own():
    view = read(["who", "what"], [[1, 0, 0], [0.25, 0.25, 0.5]], keys=["le", "chat", "noir"])
    assert view.queries == [["who"], ["what"]]
    assert view.keys == [["le", "1.00"], ["chat", "0"], ["noir", "0"]]
    assert "".join(view.said) == "who looks at le 1.00"


def test_the_line_names_the_three_largest():
    view = read(["a"], [[0.1, 0.2, 0.3, 0.4]], keys=["k", "l", "m", "n"])
    assert "".join(view.said) == "a looks at n 0.40, m 0.30, l 0.20"
    assert "".join(read(["a"], [[0.0]]).said) == "a looks at nothing"


def test_one_tab_stop_and_one_choice():
    html = token_view(CAT, WEIGHTS)._repr_html_()
    assert html.count('role="radio"') == html.count('<button type="button"') == 5
    assert html.count('aria-checked="true" tabindex="0"') == 1
    assert html.count('aria-checked="false" tabindex="-1"') == 4


def test_nothing_is_loaded_and_views_do_not_share_names():
    html = token_view(CAT, WEIGHTS)._repr_html_()
    assert not re.search(r"<script|https?:|\sid=|\sname=|src=|@import|url\(", html)


def test_words_and_label_cannot_break_the_page():
    nasty = ["<b>", '"x"', "&amp;", "</table>", "' onclick='"]
    view = token_view(nasty, WEIGHTS, label='</b><i>&"')
    html = view._repr_html_()
    assert not re.search(r"<b>\"|<i>|</table>[^<]|&amp;<", html)
    assert [cell[0] for cell in Reader(html).table[0][1:]] == nasty
    assert html.count("</table>") == 1
    assert "&lt;/b&gt;&lt;i&gt;&amp;&quot;" in html


def test_white_space_is_made_visible():
    assert [q[0] for q in read(["\n", "", " the"], np.eye(3)).queries] == ["'\\n'", "''", " the"]


def test_the_same_call_gives_the_same_page():
    one, two = (token_view(CAT, WEIGHTS)._repr_html_() for _ in range(2))
    assert one == two


def test_it_stays_small():
    n = 40
    html = token_view(["tokens"] * n, np.full((n, n), 1 / n))._repr_html_()
    assert len(token_view(CAT, WEIGHTS)._repr_html_()) < 6_000
    assert len(html.encode()) < 30_000
    with pytest.raises(ValueError, match=r"60 queries and 60 keys make 4\d KB, the limit is 30 KB"):
        token_view(["tokens"] * 60, np.full((60, 60), 1 / 60))


def test_the_ink_is_readable_on_the_darkest_blue():
    alpha = float(re.search(r"rgb\(0 114 178/calc\((\.\d+)\*", token_view(["a"], [[1]])._html)[1])
    ground = [255 + alpha * (c - 255) for c in (0, 114, 178)]

    def luminance(rgb):
        rgb = np.array(rgb) / 255
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    assert (luminance(ground) + 0.05) / (luminance([0x1A] * 3) + 0.05) >= 4.5


def test_a_terminal_gets_a_table():
    assert repr(token_view(["a", "bc"], np.eye(2))) == "      a   bc\n a 1.00    0\nbc    0 1.00"


def test_half_precision_and_tensors_are_welcome():
    assert numbers(token_view(["a", "b"], np.eye(2, dtype=np.float16))._html)[0, 0] == 1
    torch = pytest.importorskip("torch", reason="torch is not installed")
    scores = torch.arange(900.0).reshape(30, 30).requires_grad_()
    weights = (scores / 900).softmax(-1).bfloat16()
    assert numbers(token_view(list(range(30)), weights)._html).shape == (30, 30)


def with_value(t, j, value):
    weights = WEIGHTS.copy()
    weights[t, j] = value
    return weights


@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        ((CAT, np.ones((2, 5, 5))), {}, r"shape \(2, 5, 5\)"),
        ((CAT, np.ones(5)), {}, r"shape \(5,\)"),
        ((CAT[:4], WEIGHTS), {}, r"got shape \(5, 5\), needs \(4, 4\)"),
        ((CAT, WEIGHTS), {"keys": ["a"]}, r"needs \(5, 1\) for 5 queries and 1 keys"),
        (([], np.ones((0, 0))), {}, r"shape \(0, 0\)"),
        ((CAT, with_value(2, 4, -0.1)), {}, r"got -0.1 at \[2, 4\]"),
        ((CAT, with_value(1, 3, np.nan)), {}, r"got nan at \[1, 3\]"),
        ((CAT, with_value(1, 3, np.inf)), {}, "row 1 sums to inf"),
        ((CAT, with_value(3, 0, 0.5)), {}, "row 3 sums to 0.5, needs 1"),
        ((CAT, 2 * WEIGHTS), {}, "row 0 sums to 2"),
        ((CAT, WEIGHTS.T), {}, "row 0 sums to 0.701"),
    ],
)
def test_what_is_no_attention_is_refused(args, options, words):
    with pytest.raises(ValueError, match=words):
        token_view(*args, **options)


def test_a_sentence_is_not_a_list_of_words():
    with pytest.raises(TypeError, match=r"words: got one string.*split"):
        token_view("ab", np.eye(2))
