"""A workflow for the template repository of a course on GitHub Classroom."""

from string import Template

from ... import __version__

PATH = ".github/workflows/classroom.yml"
WORKFLOW = Template("""\
# Grades $stem on each push. Students can read this file, and who may push to it can change it:
# the grade that counts is the one that you compute from their notebooks with `attnlearn grade`.
# Needs a secret ATTNLEARN_SEED: any text that students do not know. Pull requests never see it.
name: Classroom
on: [push, workflow_dispatch]
permissions:
  contents: read
  checks: write
jobs:
  grade:
    runs-on: ubuntu-24.04
    timeout-minutes: 20
    if: github.actor != 'github-classroom[bot]'
    steps:
      - uses: actions/checkout@v4
      # The exercises with their solutions. For your own: a private repository, and a token for it.
      - uses: actions/checkout@v4
        with:
          repository: $repository
          ref: $ref
          path: .attnlearn
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - name: Install
        run: |
          python -m pip install --quiet -e "./.attnlearn[grade]"
          # Ubuntu keeps unprivileged users from namespaces, and so from the strongest sandbox.
          sudo sysctl -q -w kernel.apparmor_restrict_unprivileged_userns=0 || true
      - name: Grade
        id: grade
        env:
          ATTNLEARN_SEED: $${{ secrets.ATTNLEARN_SEED }}
        run: |
          test -n "$$ATTNLEARN_SEED" || { echo "The secret ATTNLEARN_SEED is missing."; exit 1; }
          umask 077 && printf '%s' "$$ATTNLEARN_SEED" > "$$RUNNER_TEMP/seed" && umask 022
          unset ATTNLEARN_SEED
          python -m attnlearn grade $notebook --assignment $stem --exercises .attnlearn \\
              --seed-file "$$RUNNER_TEMP/seed" --out "$$RUNNER_TEMP/graded" > "$$RUNNER_TEMP/log"
          rm "$$RUNNER_TEMP/seed"
          python -m attnlearn export "$$RUNNER_TEMP/graded" --to classroom \\
              --file "$$RUNNER_TEMP/line"
          cat "$$RUNNER_TEMP/line" >> "$$GITHUB_OUTPUT"
      - uses: actions/upload-artifact@v4
        with:
          name: feedback
          path: $${{ runner.temp }}/graded/feedback
      - uses: classroom-resources/autograding-grading-reporter@v1
        env:
          GRADE_RESULTS: $${{ steps.grade.outputs.result }}
        with:
          runners: grade
""")


def text(stem, notebook, repository="attnlearn/attnlearn", ref=f"v{__version__}"):
    return WORKFLOW.substitute(stem=stem, notebook=notebook, repository=repository, ref=ref)
