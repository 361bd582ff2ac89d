"""The workshop behind the exercises: read, test, release and grade them with nbval."""
