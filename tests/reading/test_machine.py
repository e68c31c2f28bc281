import subprocess
import sys

import pytest
from limits import PROCESS_S

PAGES_OF_FIVE_ARRAYS_AT_A_TIME = """
import resource
import numpy as np
from timing_logger.reading.machine import give_back_freed_memory, keep_freed_memory

def new_pages(rounds, after_each_round):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        arrays = [np.ones(2**18) for _ in range(5)]  # 2 MiB each: too small for huge pages
        del arrays
        after_each_round()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
for after_each_round in (lambda: None, give_back_freed_memory):
    new_pages(1, after_each_round)
    print(new_pages(10, after_each_round) / 10)
"""


pytestmark = pytest.mark.slow(
    "how often memory is asked for, of which no result depends; numpy in a process of its own"
)


@pytest.fixture(scope="module")
def new_pages_per_round() -> tuple[float, float]:
    """Where the memory is kept, and where it is given back after each round."""
    program = [sys.executable, "-c", PAGES_OF_FIVE_ARRAYS_AT_A_TIME]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PROCESS_S, check=True)
    kept, given_back = map(float, done.stdout.split())
    return kept, given_back


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to")
def test_memory_that_is_kept_is_used_again_without_asking_the_system(new_pages_per_round):
    assert new_pages_per_round[0] < 10


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to")
def test_memory_that_is_given_back_has_to_be_asked_for_again(new_pages_per_round):
    pages_of_five_arrays = 5 * 2**21 // 4096
    assert new_pages_per_round[1] > pages_of_five_arrays / 2
