"""What a student reads after a check: one text, once plain and once as HTML."""

import html
import textwrap
from dataclasses import dataclass, field

from .compare import differ, is_blank
from .diagnose import diagnose

RIGHT, WRONG, OPEN = "✓", "✗", "·"
WORDS = {RIGHT: "right", WRONG: "wrong", OPEN: "not judged"}


@dataclass
class Line:
    """One case: its mark, its name, what it calls and what is wrong with the value."""

    mark: str
    name: str
    call: str = ""
    sentence: str = ""

    def text(self, indent=""):
        call = f"   {self.call}" if self.mark == WRONG and self.call else ""
        sentence = f"\n{indent}    {self.sentence}" if self.sentence else ""
        return f"{indent}{self.mark} {self.name}{call}{sentence}"

    def html(self):
        """The mark and its word, no colour: readable in light, in dark and aloud."""
        call = f" <code>{html.escape(self.call)}</code>" if self.mark == WRONG and self.call else ""
        sentence = f"<br>{html.escape(self.sentence)}" if self.sentence else ""
        mark = f'<span aria-hidden="true">{self.mark}</span> <b>{WORDS[self.mark]}</b>'
        return f"<div>{mark}: {html.escape(self.name)}{call}{sentence}</div>"


@dataclass
class Report:
    """The verdict on one task."""

    headline: str
    lines: list = field(default_factory=list)
    mistakes: list = field(default_factory=list)
    notes: list = field(default_factory=list)

    def text(self, cases=True):
        """For a terminal; without the cases where they have been shown already."""
        out = [self.headline, *(line.text("  ") for line in self.lines if cases)]
        for mistake in self.mistakes:
            out += [f"  {_title(mistake)}", _fill(mistake.hint)]
        out += [_fill(note, "  ") for note in self.notes]
        return "\n".join(out)

    def html(self):
        """The headline and what follows from it; each case has shown its own line."""
        say = html.escape
        hints = [f"<p><b>{say(_title(m))}</b><br>{say(m.hint)}</p>" for m in self.mistakes]
        notes = [f"<p>{say(note)}</p>" for note in self.notes]
        return (
            f'<div role="group" aria-label="{say(self.headline)}" '
            'style="border-left: 3px solid currentColor; padding-left: 0.8em">'
            f"<p><b>{say(self.headline)}</b></p>{''.join(hints + notes)}</div>"
        )


def judge(case, value):
    """The line of one case."""
    sentence = differ(value, case["value"], case)
    call = case["call"] if len(case["call"]) <= 80 else ""
    return Line(WRONG if sentence else RIGHT, case["name"], call, sentence or "")


def visible(values, table):
    """The values of those cases that a student may be told of."""
    hidden = {case["name"] for case in table["cases"] if case.get("hidden")}
    return {name: value for name, value in values.items() if name not in hidden}


def report(task, table, values, *, unjudged=(), kept_raise=False, notes=()):
    """The verdict on the values of one task, `{case: encoded value}`."""
    cases = table["cases"]
    errors = [v for v in values.values() if v["k"] == "error"]
    if errors and len(errors) == len(values):
        if all(map(is_blank, errors)):
            line = "The line `raise NotImplementedError` still runs: delete it."
            return Report(f"{task}: not answered yet.", notes=[line] if kept_raise else [])
        if missing := missing_name(errors, table):
            line = f"`{missing}` is not defined. Run the answer cell first, and see that it ends "
            return Report(f"{task}: no answer found.", notes=[line + "without an error.", *notes])
        if all(e["v"] == "Forbidden" for e in errors):
            told = [v["msg"] for v in visible(values, table).values()]
            return Report(f"{task}: not allowed.", notes=[*map(_sentence, told[:1]), *notes])
    lines = [
        Line(OPEN, c["name"], c["call"])
        if c["name"] in unjudged
        else judge(c, values.get(c["name"]))
        for c in cases
    ]
    right = sum(line.mark == RIGHT for line in lines)
    headline = f"{task}: {right} of {len(cases)} checks pass."
    if right == len(cases):
        headline = f"{task}: all {right} checks pass."
        notes = [*notes, *_hidden(table)]
    if unjudged:
        notes = [
            *notes,
            "A check that was edited, or that belongs to another version, isn't judged.",
        ]
    mistakes = [] if unjudged else diagnose(values, table)
    return Report(headline, lines, mistakes, list(notes))


def _hidden(table):
    if not table.get("hidden"):
        return []
    return ["Some further cases run only when an instructor grades."]


def missing_name(errors, table):
    """The first name missed, where every case missed one of those asked for, or None."""
    names = [
        next((n for n in table.get("defines", []) if f"'{n}'" in e["msg"]), None)
        for e in errors
        if e["v"] == "NameError"
    ]
    return names[0] if all(names) and len(names) == len(errors) > 0 else None


def _title(mistake):
    where = "" if mistake.sure else f"  (in: {', '.join(mistake.cases)})"
    return f"{mistake.title}: {mistake.name}{where}"


def _sentence(text):
    return text[:1].upper() + text[1:] + "."


def _fill(text, indent="    "):
    return textwrap.fill(text, 92, initial_indent=indent, subsequent_indent=indent)
