"""Run the cases of a check cell: emit a value for each, and judge it where a table is at hand."""

import contextlib
import hashlib
import os
import sys
import warnings

import numpy as np

from . import forbid, scope, tables
from .limit import TimeUp, exit_raises, time_limit
from .report import OPEN, Line, judge, report
from .values import encode, encode_error

MIME = "application/vnd.attnlearn.check+json"
_recorder = None


@contextlib.contextmanager
def recording(table):
    """Collect the records in the list that this yields, and show nothing: for the bank."""
    global _recorder
    before, _recorder = _recorder, ([], table)
    try:
        yield _recorder[0]
    finally:
        _recorder = before


def check(task, *, rtol=1e-6, atol=1e-8, seconds=10):
    """Begin the check of one task; call what it returns once for each case.

    `rtol` and `atol` hold for every case, `seconds` is the time each one may take.
    """
    frame = sys._getframe(1)
    return Cases(task, {"rtol": rtol, "atol": atol}, seconds, frame)


class Cases:
    """`case(name, f)` runs `f()`, or `f(rng)` with a generator of the case's own."""

    def __init__(self, task, rule, seconds, frame):
        self.task, self.rule = task, rule
        self.namespace, self.file = frame.f_globals, frame.f_code.co_filename
        self.table = _recorder[1] if _recorder else tables.find(task)
        self.seconds = min(seconds, (self.table or {}).get("seconds") or seconds)
        self.values, self.unjudged, self.error = {}, [], None
        self.time_is_up = False
        self.edited = self._check_was_edited()
        self.forbid = (self.table or {}).get("forbid", [])
        self.mentions = self._forbidden_mention()

    def __call__(self, name, f=None, *, weight=1, exact=False, at_most=None):
        """One case; without `f` a decorator. `exact` allows no tolerance, `at_most` is a limit."""
        if f is None:
            return lambda g: self(name, g, weight=weight, exact=exact, at_most=at_most)
        if name in self.values:
            raise ValueError(f"two cases of {self.task} are called {name!r}")
        rule = {"rtol": 0, "atol": 0} if exact else self.rule
        rule = rule if at_most is None else {"at_most": at_most}
        self.values[name] = self._value(name, f)
        record = {"task": self.task, "name": name, "call": scope.call_text(f), "weight": weight}
        self._publish({**record, **rule, "value": self.values[name]})

    def _value(self, name, f):
        if self.mentions:
            return encode_error(forbid.Forbidden(forbid.message(self.mentions)))
        if self.time_is_up:  # the next case would loop as long
            why = "not run: an earlier case ran out of time"
            return {"k": "error", "v": "NotRun", "msg": why}
        try:
            with (
                warnings.catch_warnings(),
                np.errstate(all="ignore"),
                forbid.trap(self.forbid, self.namespace, self.file) as called,
                exit_raises(),
                time_limit(self.seconds),
            ):
                warnings.simplefilter("ignore")
                result = f(self._generator(name)) if scope.takes_argument(f) else f()
                value = encode(result)
        except KeyboardInterrupt:
            raise
        except TimeUp:
            self.time_is_up = True
            return {"k": "error", "v": "TimeUp", "msg": f"no answer within {self.seconds:g} s"}
        except BaseException as error:  # SystemExit, too: one case is lost, not the kernel
            return encode_error(error, self.file)
        if called:  # the answer caught the alarm
            return encode_error(forbid.Forbidden(forbid.message(called[0])))
        return value

    def _generator(self, name):
        """RandomState, for its stream is frozen between NumPy versions."""
        seed = os.environ.get("ATTNLEARN_SEED", "0")
        digest = hashlib.sha256(f"{seed}/{self.task}/{name}".encode()).digest()
        return np.random.RandomState(int.from_bytes(digest[:4], "little"))

    def _publish(self, record):
        if _recorder:
            _recorder[0].append(record)
        elif os.environ.get("ATTNLEARN_MODE") == "grade":
            _display(f"{self.task}: {record['name']}", record, None)
        else:
            self._judge(record)

    def _judge(self, record):
        cases = (self.table or {}).get("cases", [])
        case = next((c for c in cases if c["name"] == record["name"]), None)
        if self.table is None:
            why = f"recorded; this version of attnlearn has no expected values for {self.task}"
            line = Line(OPEN, record["name"], sentence=why)
        elif self.edited or case is None or case["call"] != record["call"]:
            self.unjudged.append(record["name"])
            why = "not judged: this check was edited, or belongs to another version of attnlearn"
            line = Line(OPEN, record["name"], sentence=why)
        else:
            line = judge(case, record["value"])
            if record["value"]["k"] == "error":  # the same error in each case: say it once
                again, self.error = self.error == line.sentence, line.sentence
                line.sentence = "" if again else line.sentence
        _display(line.text(), record, line.html())
        if cases and record["name"] == cases[-1]["name"]:
            verdict = self._report()
            _display("\n" + verdict.text(cases=False), None, verdict.html())

    def _report(self):
        defines = self.table["defines"]
        source = scope.answer_source(self.namespace, defines)
        outside = scope.outside_names(self.namespace, defines, self.table["given"])
        return report(
            self.task,
            self.table,
            self.values,
            unjudged=self.unjudged,
            kept_raise=scope.unfinished(source, self.table["blank"]),
            notes=[
                *(
                    f"Note: `{name}` is no longer what the setup cell imported: a cell rebinds it. "
                    "Rename that, and run the setup cell again."
                    for name in scope.rebound(self.table.get("imports", ""), self.namespace)
                ),
                *(
                    f"Note: `{function}` uses `{name}` from outside the answer cell. Move it in, "
                    "or a fresh run may not find it."
                    for function, name in outside
                ),
            ],
        )

    def _check_was_edited(self):
        """Compare what the cell prepares for its cases; each case compares its own call."""
        if not self.table or "check" not in self.table:
            return False
        source = scope.cell_source(self.file)
        return bool(source) and scope.bindings(source) != scope.bindings(self.table["check"])

    def _forbidden_mention(self):
        if not self.forbid:
            return None
        source = scope.answer_source(self.namespace, self.table["defines"])
        return forbid.found_in(source, self.forbid, self.namespace)


def _display(text, record, html):
    """Show in a notebook with the value beside it; elsewhere print the text."""
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        print(text)
        return
    data = {"text/plain": text}
    if record is not None:
        data[MIME] = record
    if html is not None:
        data["text/html"] = html
    ipython.display.display(data, raw=True)
    sys.stdout.flush()  # waits until it is sent: a kernel that dies in the next case keeps this one
