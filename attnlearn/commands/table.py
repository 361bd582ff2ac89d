"""A plain table for a terminal."""


def show(head, rows):
    """Print rows under their heads; wide scripts stand in line, and no cell steers a terminal."""
    from wcwidth import wcswidth

    lines = [[clean(cell) for cell in line] for line in (head, *rows)]
    widths = [max(map(wcswidth, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (c + " " * (w - wcswidth(c)) for c, w in zip(line, widths, strict=True))
        print("  ".join(padded).rstrip())


def clean(cell):
    from ..grading.handed_in import students

    return students.clean(str(cell), longest=300) if str(cell).strip() else ""
