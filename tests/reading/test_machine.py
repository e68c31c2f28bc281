import subprocess
import sys

import pytest
from limits import PROCESS_S

PAGES_OF_FIVE_ARRAYS_AT_A_TIME = """
import resource
import numpy as np
from timing_logger.reading.machine import give_back_freed_memory, keep_freed_memory

def new_pages(rounds):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        arrays = [np.ones(2**18) for _ in range(5)]  # 2 MiB each: too small for huge pages
        del arrays
        AFTER_EACH_ROUND
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

AT_FIRST
new_pages(1)
print(new_pages(10) / 10)
"""


def new_pages_per_round(at_first: str, after_each_round: str = "pass") -> float:
    program = PAGES_OF_FIVE_ARRAYS_AT_A_TIME.replace("AT_FIRST", at_first).replace(
        "AFTER_EACH_ROUND", after_each_round
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PROCESS_S, check=True
    )
    return float(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to")
def test_memory_that_is_kept_is_used_again_without_asking_the_system():
    assert new_pages_per_round("keep_freed_memory()") < 10


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to")
def test_memory_that_is_given_back_has_to_be_asked_for_again():
    pages_of_five_arrays = 5 * 2**21 // 4096
    assert new_pages_per_round("keep_freed_memory()", "give_back_freed_memory()") > pages_of_five_arrays / 2
