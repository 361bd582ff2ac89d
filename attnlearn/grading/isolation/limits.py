"""What a submission may use."""

from dataclasses import dataclass, field


def _most(default, about):
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True)
class Limits:
    """What a submission may use; all can be set on the command line."""

    case_seconds: float = _most(60.0, "one case of a check; most checks allow less, 10 seconds")
    cell_seconds: float = _most(120.0, "one cell, a whole check included")
    output_mb: float = _most(8.0, "what one cell prints and shows")
    memory_mb: float = _most(4096.0, "memory of one process")
    total_memory_mb: float = _most(6144.0, "memory of all processes together")
    processes: int = _most(64, "processes")
    file_mb: float = _most(64.0, "one file that an answer writes")
    disk_mb: float = _most(256.0, "all files together")
