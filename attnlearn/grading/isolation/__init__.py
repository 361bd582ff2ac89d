"""Students' code kept apart: what it may see, reach and use."""
