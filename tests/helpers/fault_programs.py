"""Programs with a fault, which tests and campaigns run in processes of their own."""

from __future__ import annotations

FORKS_UNDER_LOAD = """
import os, sys, threading
from timing_logger import TimingLogger
logger = TimingLogger(0, sys.argv[1], flush_interval=0.001)
stop = threading.Event()
recorded = [0, 0]
def load(k):
    while not stop.is_set():
        logger.record_timing("PARENT", 1.0)
        recorded[k] += 1
        if recorded[k] % 100 == 0:
            stop.wait(0.0005)
threads = [threading.Thread(target=load, args=(k,)) for k in range(2)]
for t in threads: t.start()
for i in range(int(sys.argv[2])):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with logger.record_mpi_operation("CHILD"):
                pass
            assert logger.flush(1.0)
            assert logger.stats.written == 0 and logger.stats.accepted == logger.stats.dropped == 1
            logger.close()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    assert status == 0, (i, status)
stop.set()
for t in threads: t.join()
logger.close()
assert logger.stats == (sum(recorded), sum(recorded), 0, 0), (logger.stats, recorded)
"""
"""Forks while two threads record. Arguments: the folder, and the number of forks."""

FILE_SIZE_LIMIT = """
import os, resource, sys
from timing_logger import TimingLogger
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
logger = TimingLogger(0, sys.argv[1], flush_interval=3600)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))  # in the middle of a line
for i in range(3000):
    logger.record_timing("A", 1.0, iteration=i)
assert not logger.flush()
text = logger.path.read_bytes()
assert text.endswith(b"\\n"), text[-100:]
assert logger.stats.pending + logger.stats.written == 3000 and logger.stats.pending > 0
if sys.argv[2] == "freed":
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert logger.flush()
sys.exit(3)
"""
"""Reaches a limit on the file's size. Arguments: the folder, and ``freed`` to lift it before the end."""

RECORDING_HANDLER = """
import signal, sys
from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink
sink = MemorySink()
logger = TimingLogger(0, log_dir=None, sinks=[sink], flush_interval=0.001)
handled = 0
def handler(*_):
    global handled
    handled += 1
    with logger.record_mpi_operation("HANDLER"):
        logger.record_timing("HANDLER", 1.0)
    if handled % 50 == 0:
        logger.flush(1.0)
        logger.stats
signal.signal(signal.SIGPROF, handler)
signal.setitimer(signal.ITIMER_PROF, 0.0005, 0.0005)
recorded = 0
while handled < int(sys.argv[1]):
    for _ in range(100):
        with logger.record_mpi_operation("MAIN"):
            recorded += 1
    if recorded % 1000 == 0:
        logger.flush(1.0)
        logger.stats
signal.setitimer(signal.ITIMER_PROF, 0)
logger.close()
assert logger.stats == (recorded + 2 * handled, recorded + 2 * handled, 0, 0), logger.stats
assert sum(r.operation == "HANDLER" for r in sink.records) == 2 * handled
"""
"""Records in a signal handler. Argument: how often."""

RECORDING_FINALIZERS = """
import gc
from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink
logger = TimingLogger(0, log_dir=None, sinks=[MemorySink()], flush_interval=0.001)
finalized = 0
class Cycle:
    def __init__(self): self.me = self
    def __del__(self):
        global finalized
        finalized += 1
        logger.record_timing("DEL", 1.0)
        if finalized % 100 == 0:
            logger.stats
gc.set_threshold(1)
for _ in range(5000):
    Cycle()
    logger.record_timing("MAIN", 1.0)
gc.set_threshold(700)
while finalized < 5000:
    gc.collect()  # does nothing while the flush thread collects
logger.close()
assert logger.stats == (10000, 10000, 0, 0), logger.stats
"""
