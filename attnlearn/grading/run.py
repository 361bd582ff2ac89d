"""One submission, from its notebook to its result; whatever happens, it is only this one's."""

import traceback

from . import results


def grade_one(assignment, work):
    """The result of one submission."""
    if work.trouble:
        return results.result(assignment, work, findings=work.findings)
    try:
        return _graded(assignment, work)
    except Exception as error:  # a fault of the grader: no grade, and the others go on
        where = traceback.extract_tb(error.__traceback__)[-1].name
        return no_grade(assignment, work, f"{type(error).__name__}: {error} ({where})")


def no_grade(assignment, work, why):
    """The result of a submission that the grader itself failed on."""
    from . import session

    job = session.Job(None, assignment)
    what = f"The grader failed, so this is no grade: {why}"
    return results.result(assignment, work, job, [*work.findings, what])


def _graded(assignment, work):
    from . import session  # pytest and nbval: only a process that grades waits for them

    job = session.Job(work.content, assignment)
    session.run(job)
    findings = [*work.findings, *job.transplant.findings, *job.findings]
    return results.result(assignment, work, job, findings)
