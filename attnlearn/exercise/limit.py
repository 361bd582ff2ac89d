"""Stop code that runs too long, and keep the kernel of code that wants to leave."""

import contextlib
import signal
import sys
import threading


class TimeUp(BaseException):
    """Not an Exception, so that `except Exception` in a loop doesn't swallow it."""


@contextlib.contextmanager
def time_limit(seconds):
    """Raise TimeUp after `seconds`; in the main thread on POSIX, elsewhere there is no limit."""
    main = threading.current_thread() is threading.main_thread()
    if not (main and hasattr(signal, "SIGALRM")):
        yield
        return

    running = True

    def stop(number, frame):
        if running:
            raise TimeUp("time limit")

    handler = signal.signal(signal.SIGALRM, stop)
    # Every 0.1 s again, should a bare `except:` catch it.
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)


@contextlib.contextmanager
def exit_raises():
    """IPython's `exit()` returns, and ends the kernel later: let it raise at once."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    if not shell:
        yield
        return
    before, shell.ask_exit = shell.ask_exit, sys.exit
    try:
        yield
    finally:
        shell.ask_exit = before
