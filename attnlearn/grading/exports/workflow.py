"""A workflow for the template repository of a course on GitHub."""

import json
import shlex
from string import Template

from ... import __version__

PATH = ".github/workflows/classroom.yml"
OURS = ("attnlearn/attnlearn", f"v{__version__}")
HEAD = """\
# Grades $stem on each push: points, mistakes, hints in the job's summary, a page for download.
# Needs a secret ATTNLEARN_SEED: any text that students do not know.$token_too
#
# What holds: an answer runs in a sandbox. It sees no secret, no exercise and no points.
# What does not hold: whoever may push here can change this file, and print every secret.$opens
# So give the course a seed of its own, take these points as a self-check, and compute the grade
# that counts from the students' notebooks, with `attnlearn grade` and another seed. A rule of your
# organisation can forbid pushes that change .github (a push ruleset that restricts file paths).
"""
JOB = """\
name: Autograding Tests # Classroom looks for this name, and for that of the job
on: [push, workflow_dispatch]
permissions:
  contents: read
jobs:
  run-autograding-tests:
    runs-on: ubuntu-24.04
    timeout-minutes: 20
    if: github.actor != 'github-classroom[bot]'
    steps:
      - uses: actions/checkout@v5
        with:
          persist-credentials: false
      - uses: actions/checkout@v5 # the grader
        with:
          repository: $ours
          ref: $version
          path: .attnlearn
          persist-credentials: false
"""
OWN = """\
      - uses: actions/checkout@v5 # the exercises
        with:
          repository: $repository
          ref: $ref
          token: $${{ secrets.ATTNLEARN_TOKEN || github.token }}
          path: .exercises
          persist-credentials: false
"""
REST = """\
      - uses: actions/setup-python@v6
        with:
          python-version: "3.12"
      # Not in the student's folder: Python would import from it.
      - name: Install
        working-directory: $${{ runner.temp }}
        run: |
          python -m pip install --quiet -e "$$GITHUB_WORKSPACE/.attnlearn[$extras]"
          # Ubuntu keeps users from namespaces, and so from the strongest sandbox.
          sudo sysctl -q -w kernel.apparmor_restrict_unprivileged_userns=0 || true
      - name: Grade
        id: grade
        working-directory: $${{ runner.temp }}
        env:
          ATTNLEARN_SEED: $${{ secrets.ATTNLEARN_SEED }}
        run: |
          test -n "$$ATTNLEARN_SEED" || { echo "The secret ATTNLEARN_SEED is missing."; exit 1; }
          (umask 077 && printf '%s' "$$ATTNLEARN_SEED" > seed)
          unset ATTNLEARN_SEED
          # What is printed now may hold a student's words: until the word, none is a command.
          word="$$(python -c 'import secrets; print(secrets.token_hex())')"
          echo "::stop-commands::$$word"
          python -m attnlearn grade "$$GITHUB_WORKSPACE"/$notebook --assignment $stem \\
              --exercises "$$GITHUB_WORKSPACE/$exercises" --seed-file seed --out graded || failed=1
          echo "::$$word::"
          rm seed
          test -z "$${failed-}"
          python -m attnlearn export graded --to classroom
      - uses: actions/upload-artifact@v6
        with:
          name: feedback
          path: $${{ runner.temp }}/graded/feedback
      # For GitHub Classroom, which GitHub is closing. Without it, delete the lines below: the
      # points stand in the summary all the same.
      - uses: classroom-resources/autograding-grading-reporter@v1
        env:
          GRADE_RESULTS: $${{ steps.grade.outputs.result }}
        with:
          runners: grade
"""
TOKEN_TOO = """
# Needs a secret ATTNLEARN_TOKEN: it may read the repository of the exercises, and nothing else."""
OPENS = """
# So it can also fetch the exercises with their solutions, by the token."""


def text(stem, notebook, extras=("grade",), own=None):
    """The workflow. `own` is (repository, tag or branch) of exercises of your own."""
    parts = (HEAD, JOB, OWN, REST) if own else (HEAD, JOB, REST)
    repository, ref = own or ("", "")
    return Template("".join(parts)).substitute(
        stem=shlex.quote(stem),
        notebook=shlex.quote(notebook),
        extras=",".join(extras),
        exercises=".exercises" if own else ".attnlearn",
        ours=json.dumps(OURS[0]),
        version=json.dumps(OURS[1]),
        repository=json.dumps(repository),
        ref=json.dumps(ref),
        token_too=TOKEN_TOO if own else "",
        opens=OPENS if own else "",
    )
