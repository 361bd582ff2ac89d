"""Stop code that runs too long."""

import contextlib
import signal
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
