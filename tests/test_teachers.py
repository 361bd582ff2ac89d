"""The teacher's page tells the truth: its commands run as they stand there, and print what it says.

Blocks marked `bash` are run in their order, and the `text` block below one is what it prints; a
line `…` there leaves something out. Commands in blocks marked `sh` are only parsed.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from attnlearn.__main__ import COMMANDS
from attnlearn.grading import results
from attnlearn.grading.handed_in import inbox, students
from attnlearn.grading.isolation import sandbox
from attnlearn.grading.isolation.limits import Limits

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "book/teachers.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(bash|sh|text|python)\n(.*?)^```$", PAGE, re.M | re.S)
LEFT_OUT = "…"
# What is another one in each run: times, fingerprints, the order of finishing, the machine's level.
VARIES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d|\b[0-9a-f]{8,}\b|^\[\d+/|\bL[23]\b", re.M)


def commands():
    """Every `attnlearn ...` on the page, in blocks and in the text."""
    shell = [text.replace("\\\n", " ") for kind, text in BLOCKS if kind in ("bash", "sh")]
    lines = [line for text in shell for line in text.splitlines()]
    text = re.sub(r"^```.*?^```$", "", PAGE, flags=re.M | re.S)
    inline = re.findall(r"`(attnlearn \w+ [^`]+)`", text)
    return [line for line in [*lines, *inline] if line.startswith("attnlearn ")]


@pytest.mark.parametrize("command", commands())
def test_a_command_has_the_options_it_is_shown_with(command):
    parser = argparse.ArgumentParser(exit_on_error=False)
    added = parser.add_subparsers(required=True)
    for module in COMMANDS:
        module.add(added)
    parser.parse_args(shlex.split(command)[1:])


def test_options_in_the_text_are_options_of_a_command():
    added = argparse.ArgumentParser().add_subparsers()
    known = {
        option
        for module in COMMANDS
        for action in module.add(added)._actions
        for option in action.option_strings
    }
    own_lines = re.sub(r"`(docker|sudo|pip|gh) [^`]*`", "", PAGE)
    assert set(re.findall(r"`(--?[a-z][\w-]*)[^`]*`", own_lines)) <= known


def test_the_page_does_what_it_shows(tmp_path):
    if sandbox.choose(Limits()).level < sandbox.ENOUGH:
        pytest.skip("no sandbox on this machine that official grading accepts")
    course = _course(tmp_path)
    before, printed = "", ""
    for kind, text in BLOCKS:
        if kind == "python":
            (course / "mine/solutions").mkdir(parents=True)
            (course / "mine/solutions/21_warmup.py").write_text(text, "utf-8")
        elif kind == "bash":
            printed = _run(text, course)
        elif kind == "text" and before == "bash":
            _compare(text, printed)
        before = kind


def _course(folder):
    """An empty folder beside the repository, and the commands that an installed package gives."""
    (folder / "attnlearn").symlink_to(ROOT)
    for name, call in (("attnlearn", "-m attnlearn"), ("python", "")):
        script = folder / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {call} "$@"\n')
        script.chmod(0o755)
    (folder / "course").mkdir()
    return folder / "course"


def _run(text, course):
    path = os.pathsep.join([str(course.parent / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    options = {"cwd": course, "env": environment, "capture_output": True, "text": True}
    done = subprocess.run(["bash", "-euc", text], **options)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _compare(shown, printed):
    shown, printed = (sorted(VARIES.sub("*", text).splitlines()) for text in (shown, printed))
    if LEFT_OUT in shown:
        assert set(shown) - {LEFT_OUT} <= set(printed)
    else:
        assert shown == printed


def test_names_of_files_are_understood_as_the_page_says():
    table = re.search(r"^\| from \|.*?(?=\n\n)", PAGE, re.M | re.S)[0]
    rows = [line.strip("| ").split("|") for line in table.splitlines()[2:]]
    assert len(rows) >= 6
    for platform, said, names in rows:
        for name in re.findall(r"`([^`]+)`", names):
            who = _student(name)
            told = f"{who.name}, number {who.id}" if who.id else who.name
            known = "the name in" in said and who == students.Student("Jane Doe", "7001")
            assert known or told == said.strip(), platform


def _student(name):
    metadata = b"submission_7001:\n  :submitters:\n  - :name: Jane Doe\n"
    papers = [
        inbox.Paper(PurePosixPath("handed_in", name), 1.0, bytes),
        inbox.Paper(PurePosixPath("handed_in/submission_metadata.yml"), 1.0, lambda: metadata),
    ]
    (who,) = students.by_student(papers, "03_masks")
    return who


def test_every_status_is_explained():
    schema = json.loads(Path(results.__file__).with_name("results.schema.json").read_text("utf-8"))
    task = schema["properties"]["exercises"]["items"]["properties"]
    rows = re.search(r"^\| status of a task .*?(?=\n\n)", PAGE, re.M | re.S)[0].splitlines()[2:]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert sorted(named) == sorted(task["status"]["enum"])
