"""Results, for those who read them: people, tables, platforms."""
