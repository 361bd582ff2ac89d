"""How far a run has come: a bar with the time left on a terminal, plain lines elsewhere."""

import sys
import time

from tqdm import tqdm

EVERY = 30  # seconds between two words on the time left, where there is no bar


class Bar:
    """For people who watch: a bar below the lines."""

    def __init__(self, total):
        self.bar = tqdm(total=total, unit="submission", dynamic_ncols=True)

    def say(self, line):
        self.bar.write(line)
        self.bar.update()

    def close(self):
        self.bar.close()


class Lines:
    """For logs: numbered lines, and now and then the time left."""

    def __init__(self, total):
        self.total, self.done = total, 0
        self.then, self.said = 0, time.monotonic()

    def say(self, line):
        self.done += 1
        print(f"[{self.done}/{self.total}] {line}", flush=True)
        now = time.monotonic()
        if now - self.said > EVERY and self.done < self.total:
            left = (now - self.said) / (self.done - self.then) * (self.total - self.done)
            print(f"about {tqdm.format_interval(left)} left", flush=True)
            self.then, self.said = self.done, now

    def close(self):
        pass


def show(total):
    return Bar(total) if sys.stderr.isatty() else Lines(total)
