"""JUnit XML: a suite for each student, a test for each case, for whatever reads such files."""

import re
from xml.etree import ElementTree

FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # in XML 1.0


def xml(results):
    root = ElementTree.Element("testsuites", name="attnlearn")
    for result in results:
        suite = _child(root, "testsuite", name=result["student"])
        properties = _child(suite, "properties")
        for name, value in _points(result):
            _child(properties, "property", name=name, value=f"{value:g}")
        counts = [
            _case(suite, result, task, case)
            for task in result["exercises"]
            for case in task["cases"]
        ]
        suite.set("tests", str(len(counts)))
        suite.set("failures", str(counts.count("failure")))
        suite.set("errors", str(counts.count("error")))
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"


def _points(result):
    """No number where there is no grade."""
    if result["status"] != "ungraded":
        yield "earned", result["score"]
        yield from ((f"{task['id']} earned", task["earned"]) for task in result["exercises"])
    yield "points", result["max_score"]
    yield from ((f"{task['id']} points", task["points"]) for task in result["exercises"])


def _case(suite, result, task, case):
    """What became of a case: None, failure or error."""
    test = _child(suite, "testcase", classname=task["id"], name=case["name"])
    if case["passed"]:
        return None
    if result["status"] != "graded":
        _child(test, "error", message=result["trouble"] or "not graded")
        return "error"
    mistake = case["mistake"] and f"{case['mistake']}: {case['hint']}"
    _child(test, "failure", message=mistake or case["says"] or "wrong")
    return "failure"


def _child(parent, tag, **attributes):
    clean = {name: FORBIDDEN.sub("", text) for name, text in attributes.items()}
    return ElementTree.SubElement(parent, tag, clean)
