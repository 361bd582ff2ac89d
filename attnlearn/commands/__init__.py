"""The command line's commands, one in each file: `add` says how one is called, `run` does it."""
