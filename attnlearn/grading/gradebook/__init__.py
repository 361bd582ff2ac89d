"""The gradebook of a course: every attempt, what grading again changed, and which one counts."""

from .book import Gradebook
from .disk import GradebookError

__all__ = ["Gradebook", "GradebookError"]
