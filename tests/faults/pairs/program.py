"""The process that two faults strike while two threads record: ``python -m pairs.program --help``."""

from __future__ import annotations

import argparse
import atexit
import faulthandler
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pairs.faults import FAULTS, Fault, handle
from pairs.world import EXIT_CODE, FLUSH_INTERVAL_S, World
from timing_logger import TimingLogger
from timing_logger.schema.record import RawRecord
from timing_logger.sinks.csv import CsvSink

_STUCK_S = 12.0  # after which the stacks of all threads are written


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("first", choices=FAULTS)
    parser.add_argument("second", choices=FAULTS)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--generation", type=int, required=True, help="of this process's programs")
    parser.add_argument("--to-judge", type=int, required=True, help="the descriptor of a pipe")
    parser.add_argument("--without-logger", action="store_true")
    options = parser.parse_args()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2)
    faulthandler.dump_traceback_later(_STUCK_S)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chance = random.Random(f"{options.seed}/{options.generation}")
    world = World(options.folder, chance, options.generation, options.to_judge)
    signal.signal(signal.SIGURG, lambda *_: handle(world))
    first, second = FAULTS[options.first], FAULTS[options.second]
    late = chance.random() < 0.5
    if not late:  # before the logger's own hooks, so that it runs after them
        atexit.register(_at_exit, world, first, second)
    world.logger = _Nothing() if options.without_logger else _logger(world, first, second)
    if late:
        atexit.register(_at_exit, world, first, second)
    threads = [world.start_recording("TIMINGS", "timing"), world.start_recording("SPANS", "span")]
    world.pause(20)
    if options.generation:  # the first fault was the exec that led here
        _strike(world, second)
    else:
        _strike_both(world, first, second)
    world.pause(30)
    world.stop.set()
    for thread in threads:
        thread.join()
    world.ending = True
    world.logger.close()
    world.note_stats()
    sys.exit(EXIT_CODE)


def _logger(world: World, *faults: Fault) -> TimingLogger:
    write = CsvSink.write

    def write_or_wait(sink: CsvSink, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        while world.is_stalled:
            time.sleep(0.001)
        write(sink, batch, wall_offset_ns)

    CsvSink.write = write_or_wait  # type: ignore[method-assign]
    options: dict[str, Any] = {name: value for fault in faults for name, value in fault.options.items()}
    return TimingLogger(
        0, world.folder / "logs", flush_interval=FLUSH_INTERVAL_S, **{"maxsize": 20_000, **options}
    )


class _Nothing:
    """In place of a logger: what would the program do without one?"""

    stats = (0, 0, 0, 0)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


# -- two faults ---------------------------------------------------------------------------------


def _strike_both(world: World, first: Fault, second: Fault) -> None:
    """Have ``second`` strike while ``first`` goes on, or right after it."""
    if first.ends:
        _strike_an_end(world, first, second)
    elif (first.on_main and second.on_main) or world.chance.random() < 0.4:
        _strike_within(world, first, second)
    else:
        _strike_meanwhile(world, first, second)


def _strike(world: World, second: Fault) -> None:
    world.note_strike(1)
    with _going_on(second, world):
        pass


@contextmanager
def _going_on(fault: Fault, world: World) -> Iterator[None]:
    steps = fault.run(world)
    if steps is None:
        yield
        return
    next(steps, None)
    yield
    for _ in steps:
        pass


def _strike_within(world: World, first: Fault, second: Fault) -> None:
    """Have the same thread make the second in the midst of the first, if that lasts, or right after it."""
    world.note_strike(0)
    with _going_on(first, world):
        _strike(world, second)


def _strike_meanwhile(world: World, first: Fault, second: Fault) -> None:
    """Have another thread make one of them, a moment after the other has begun."""
    struck = threading.Event()
    most_ms = world.chance.choice((0.5, 3, 20))

    def make_first() -> None:
        world.note_strike(0)
        with _going_on(first, world):
            struck.wait(0.05)

    def make_second() -> None:
        world.pause(most_ms)
        try:
            _strike(world, second)
        finally:
            struck.set()

    here, there = (make_second, make_first) if second.on_main else (make_first, make_second)
    thread = threading.Thread(target=there, daemon=True)
    thread.start()
    here()
    while thread.is_alive():  # in short steps, as a signal handler may have to run
        thread.join(0.01)


def _strike_an_end(world: World, first: Fault, second: Fault) -> None:
    """End the process, while another thread or a hook of the exit makes the second fault."""
    if first is FAULTS["exec"]:
        pass  # the program that comes by it has the second strike
    elif not second.on_main and world.chance.random() < 0.6:
        most_ms = world.chance.choice((0.5, 3, 20))
        waits = world.chance.random() < 0.5

        def make_second() -> None:
            world.pause(most_ms)
            _strike(world, second)

        threading.Thread(target=make_second, daemon=not waits).start()
    else:
        world.strikes_at_exit = True
    world.note_strike(0)
    first.run(world)


def _at_exit(world: World, first: Fault, second: Fault) -> None:
    if world.strikes_at_exit and not world.is_child:
        world.strikes_at_exit = False
        _strike(world, second)


if __name__ == "__main__":
    main()
