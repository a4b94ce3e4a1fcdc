"""What holds for all tests.

Hypothesis draws the same examples in every run, or new ones where HYPOTHESIS_PROFILE=nightly asks for them. SIGINT,
which some tests send, interrupts: a shell's background jobs are started to ignore it, and so would be all they start.
"""

import os
import signal

from hypothesis import HealthCheck, settings

# How fast examples are drawn says how busy the machine is, so no test depends on it.
_UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("ci", derandomize=True, database=None, **_UNTIMED)
settings.register_profile("nightly", derandomize=False, max_examples=2000, print_blob=True, **_UNTIMED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
