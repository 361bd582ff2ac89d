"""What a student gets back: one plain page, with every word from outside escaped."""

from html import escape

from ...exercise import diagnose
from ..verdict import short

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
STYLE = """\
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem }
:root { color-scheme: light dark }
h2 { margin-top: 2.5rem; border-top: 1px solid; padding-top: 0.8rem }
li { margin: 0.3rem 0; overflow-wrap: anywhere }
.mistake { border-left: 3px solid; padding-left: 0.8rem }
"""


def page(result, assignment):
    """The feedback of one student as HTML."""
    title = f"{assignment.title}: {result['student']}"
    body = [f"<h1>{escape(assignment.title)}</h1>", _summary(result)]
    if result["trouble"]:
        body.append(f"<p>This file could not be graded: {escape(result['trouble'])}.</p>")
    else:
        body += [
            _task(task, assignment.reading.get(task["id"], "")) for task in result["exercises"]
        ]
    if result["findings"]:
        body += ["<h2>Remarks</h2>", _list(map(escape, result["findings"]))]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _summary(result):
    score = f"{short(result['score'])} of {short(result['max_score'])} points"
    file = f" for <code>{escape(result['file'])}</code>" if result["file"] else ""
    return f"<p>{escape(result['student'])}: <b>{score}</b>{file}.</p>"


def _task(task, reading):
    points = f"{short(task['earned'])} of {short(task['points'])} points"
    parts = [f"<h2>{escape(task['id'])}: {WORDS[task['status']]}, {points}</h2>"]
    parts.append(_list(_case(case) for case in task["cases"]))
    for mistake in task["mistakes"]:
        title = diagnose.title(mistake["sure"])
        name, hint = escape(mistake["name"]), escape(mistake["hint"])
        parts.append(f'<p class="mistake"><b>{title}: {name}</b><br>{hint}</p>')
    parts += [f"<p>{escape(note)}</p>" for note in task["notes"]]
    if reading and task["status"] != "solved":
        parts.append(f"<p>Read: {escape(reading)}</p>")
    return "\n".join(parts)


def _case(case):
    mark = "✓ right" if case["passed"] else "✗ wrong"
    says = f"<br>{escape(case['says'])}" if case["says"] else ""
    return f"{mark}: {escape(case['name'])}{says}"


def _list(items):
    return "<ul>\n" + "\n".join(f"<li>{item}</li>" for item in items) + "\n</ul>"
