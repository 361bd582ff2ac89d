"""Which processes of this machine still run (Linux)."""

from attnlearn.grading.isolation import processes


def running(words):
    """The numbers of those whose command line holds these words."""
    lines = {}
    for path in processes.PROC.glob("[0-9]*/cmdline"):
        try:
            lines[path.parent.name] = path.read_bytes()
        except OSError:
            continue
    return [pid for pid, line in lines.items() if words.encode() in line]
