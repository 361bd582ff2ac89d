"""What a student gets back: one plain page, with every word from outside escaped."""

import re
from html import escape
from pathlib import Path

from ...exercise import diagnose
from ..verdict import short

STYLE = Path(__file__).with_suffix(".css").read_text("utf-8")
WORDS = {
    "solved": "solved",
    "partly": "partly solved",
    "wrong": "not solved",
    "blank": "not answered",
    "missing": "no answer found",
    "stopped": "stopped",
    "forbidden": "not allowed",
    "unreadable": "not read",
    "ungraded": "not graded yet",
}
COLOURS = {"solved": "good", "partly": "middle", "ungraded": "middle"}
HIDDEN = (
    "Hidden cases run only at grading. What they try is not told, so that answers are right for "
    "all inputs and not for these; a mistake that they show is named."
)


def page(result, assignment):
    """The feedback of one student as HTML."""
    tasks = result["exercises"]
    body = [_summary(result, assignment.title)]
    if result["trouble"]:
        trouble = escape(result["trouble"])
        body.append(f'<p class="mistake">This file could not be graded: {trouble}.</p>')
    else:
        body.append(_table(tasks))
        body += [_task(task, assignment.reading.get(task["id"], "")) for task in tasks]
    if result["findings"]:
        remarks = "\n".join(f"<p>{escape(finding)}</p>" for finding in result["findings"])
        body.append(f"<section>\n<h2>Remarks</h2>\n{remarks}\n</section>")
    if not result["trouble"] and any(case["hidden"] for task in tasks for case in task["cases"]):
        body.append(f"<footer>{HIDDEN}</footer>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(assignment.title)}: {escape(result['student'])}</title>\n"
        f"<style>\n{STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def _summary(result, title):
    graded = result["status"] != "ungraded"
    score = _points(result["score"], result["max_score"]) if graded else WORDS["ungraded"]
    file = f" <code>{escape(result['file'])}</code>" if result["file"] else ""
    share = f'max="{result["max_score"]:g}" value="{result["score"]:g}"'
    bar = f'\n<progress {share} aria-label="{score}"></progress>' if graded else ""
    return (
        f"<header>\n<h1>{escape(title)}</h1>\n<p><bdi>{escape(result['student'])}</bdi>{file}</p>\n"
        f'<p class="score">{score}</p>{bar}\n</header>'
    )


def _table(tasks):
    """All tasks at a glance."""
    rows = ["<tr><th>task</th><th>answer</th><th>points</th></tr>"]
    for task in tasks:
        id, points = escape(task["id"]), f"{short(task['earned'])} of {short(task['points'])}"
        rows.append(
            f'<tr><td><a href="#{id}">{id}</a></td><td>{_status(task)}</td><td>{points}</td></tr>'
        )
    return "<table>\n" + "\n".join(rows) + "\n</table>"


def _task(task, reading):
    points = _points(task["earned"], task["points"])
    id = escape(task["id"])
    parts = [f"<h2>{id}: {_status(task)} <small>{points}</small></h2>"]
    for mistake in task["mistakes"]:
        title = diagnose.title(mistake["sure"])
        name, hint = escape(mistake["name"]), escape(mistake["hint"])
        parts.append(f'<p class="mistake"><b>{title}: {name}</b><br>{hint}</p>')
    parts += [f"<p>{escape(note)}</p>" for note in task["notes"]]
    parts.append(_cases(task["cases"]))
    if reading and task["status"] != "solved":
        parts.append(f"<p>Read: {_linked(reading)}</p>")
    return f'<section id="{id}">\n' + "\n".join(parts) + "\n</section>"


def _cases(cases):
    """Each visible case, and how many of the hidden ones are right."""
    lines = [_line(case) for case in cases if not case["hidden"]]
    if hidden := [case["passed"] for case in cases if case["hidden"]]:
        right = f"hidden cases: {sum(hidden)} of {len(hidden)} right"
        lines.append(f"<li>{_mark(all(hidden))}{right}</li>")
    listed = "<ul>\n" + "\n".join(lines) + "\n</ul>"
    if all(case["passed"] for case in cases):
        return f"<details>\n<summary>All cases are right.</summary>\n{listed}\n</details>"
    return listed


def _line(case):
    word = "right" if case["passed"] else "wrong"
    says = f'<span class="says">{escape(case["says"])}</span>' if case["says"] else ""
    return f"<li>{_mark(case['passed'])}{word}: {escape(case['name'])}{says}</li>"


def _mark(right):
    return '<b class="good">✓</b>' if right else '<b class="bad">✗</b>'


def _status(task):
    colour = COLOURS.get(task["status"], "bad")
    return f'<span class="{colour}">{WORDS[task["status"]]}</span>'


def _points(earned, points):
    return f"{short(earned)} of {short(points)} points"


def _linked(text):
    """Plain text, with its addresses as links."""
    return re.sub(r"https?://[^\s<>()]+[^\s<>().,;]", r'<a href="\g<0>">\g<0></a>', escape(text))
