"""What a submission may use."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a submission may use; all can be set on the command line."""

    case_seconds: float = 60.0  # of one case; a check may allow less, and most do: 10
    cell_seconds: float = 120.0  # of one cell, a whole check included
    output_mb: float = 8.0  # printed and shown by one cell
    memory_mb: float = 4096.0  # of one process
    total_memory_mb: float = 6144.0  # of all processes together
    processes: int = 64
    file_mb: float = 64.0  # of one file that it writes
    disk_mb: float = 256.0  # of all files together
