"""What students handed in: files, people, answers."""
