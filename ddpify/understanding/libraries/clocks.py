"""Functions that give each process a value of its own, as its clock does."""

from __future__ import annotations

# What a clock says, as a number.
READINGS = (
    "time.time time.time_ns time.perf_counter time.perf_counter_ns time.monotonic"
    " time.process_time timeit.default_timer"
).split()
CLOCKS = frozenset(
    [
        *READINGS,
        *(
            "time.strftime time.ctime time.localtime"
            " datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today"
            " datetime.date.today datetime.now uuid.uuid4 uuid.uuid1 os.getpid tempfile.mkdtemp"
            " tempfile.mktemp tempfile.TemporaryDirectory tempfile.mkstemp"
            " tempfile.NamedTemporaryFile secrets.token_hex"
        ).split(),
    ]
)


def is_clock(name: str) -> bool:
    """Whether a library function gives each process a value of its own."""
    return name in CLOCKS
