"""The commands that write a file or draw until they are stopped; ``questions`` has those that answer one."""

from __future__ import annotations

import time
import warnings
import webbrowser
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from timing_logger.cli.ctrl_c import raised
from timing_logger.cli.queries import Answer, QueryResult, cluster_of, selected_rows, terminal_width
from timing_logger.cli.stderr import say
from timing_logger.errors import ConfigurationError
from timing_logger.process.progress import begin, progress_callback

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change
    from timing_logger.live.watcher import Snapshot, Watcher
    from timing_logger.reading.recovery import Recovery


_CONVERTED = {"parquet": "timings-parquet", "csv": "timings.csv", "jsonl": "timings.jsonl"}
"""Where ``convert`` writes if nothing else is named."""


def report(arguments: Namespace) -> Answer:
    """Write the HTML report."""
    from timing_logger.importing.benchmarks import read_benchmark
    from timing_logger.reading.host_rows import host_counters_of, host_counters_of_each
    from timing_logger.report._host_rates import HostTable
    from timing_logger.report.html._findings import findings_in_files
    from timing_logger.report.html.page import write_findings

    benchmark = read_benchmark(arguments.expected) if arguments.expected else None
    query = selected_rows(arguments, None)
    with cluster_of(arguments) as workers:
        findings, result = findings_in_files(query, workers, partial(host_counters_of, query.files))
    begin("writing", 1)
    hosts = (HostTable(table) for table in host_counters_of_each(query.files) if len(table))
    write_findings(findings.beside(benchmark), arguments.output, hosts)
    if arguments.open:
        webbrowser.open(Path(arguments.output).absolute().as_uri())
    said = f"{arguments.output}: {size_of(arguments.output)}. It opens in a browser, also offline.\n"
    asked = QueryResult(query, result)
    return Answer(said + asked.not_told_text("report").removeprefix("\n") + asked.how)


def trace(arguments: Namespace) -> Answer:
    """Write the trace for Perfetto."""
    from timing_logger.analysis.rows.files import not_told, unread_files
    from timing_logger.reading.host_rows import host_counters_of
    from timing_logger.report import clocks_text, not_told_text
    from timing_logger.report.trace import write_trace_of_files

    query = selected_rows(arguments, None)
    counts = write_trace_of_files(
        query, arguments.output, host=host_counters_of(query.files), progress=progress_callback("writing")
    )
    files = unread_files(query.files)
    return Answer(
        f"{arguments.output}: {counts.spans} spans and {counts.flows} flows of {counts.processes} processes, "
        f"{size_of(arguments.output)}. Open it at ui.perfetto.dev, which keeps it in the browser.\n"
        + clocks_text(files, terminal_width())
        + not_told_text("trace", not_told(files), terminal_width())
    )


def convert(arguments: Namespace) -> Answer:
    """Convert the timing files to Parquet, CSV or JSON lines."""
    from timing_logger.reading.converting import convert

    output = arguments.output or _CONVERTED[arguments.to]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the output states what they warn of
        converted = convert(arguments.logdir, arguments.to, output, progress=progress_callback("writing"))
    files = "1 file" if len(converted.files) == 1 else f"{len(converted.files)} files"
    per_row = converted.bytes / converted.rows if converted.rows else 0.0
    rows = "1 row" if converted.rows == 1 else f"{converted.rows} rows"
    return Answer(f"{output}: {rows} in {files}, {per_row:.1f} bytes a row.\n")


def recover(arguments: Namespace) -> Answer:
    """Write what killed processes had recorded, and not written, into their files."""
    from timing_logger.reading.recovery import look_into
    from timing_logger.reading.timings import find_sources

    found = look_into(Path(arguments.logdir))
    said = [f"{each.file}: {each}.\n" for each in found if str(each)]
    if not said:
        find_sources([arguments.logdir])  # raises where there is no timing file at all
    return Answer("".join(said) or _nothing_to_recover(found))


def _nothing_to_recover(found: Sequence[Recovery]) -> str:
    running = sum(each.ended is False for each in found)
    unknown = sum(each.ended is None for each in found)
    if not running and not unknown:
        return "No process was killed before it had written all that it recorded.\n"
    alive = f"{running} of {len(found)} files are of processes that still run. " if running else ""
    strange = f"Nothing is known of {unknown}, as no sidecar can be read." if unknown else ""
    return f"Nothing was recovered. {alive}{strange}".rstrip() + "\n"


def watch(arguments: Namespace) -> Answer:
    """Until the run is over, draw the table repeatedly or tell what changes; serve a page; or look once."""
    from timing_logger.live.now import snapshot_text
    from timing_logger.live.watcher import Watcher

    if arguments.verdict and (arguments.once or arguments.all):
        raise ConfigurationError("--verdict tells changes, and draws no table: leave --once and --all away.")
    if arguments.json and not arguments.verdict:
        raise ConfigurationError("--json is for what changes: give --verdict, too.")
    _check_serving(arguments)
    watcher = Watcher(Path(arguments.logdir), arguments.window)
    if arguments.once:
        return Answer(snapshot_text(watcher.snapshot(), terminal_width(), everything=arguments.all))
    try:
        with raised():
            if arguments.serve is not None:
                return _serve(watcher, arguments)
            return (_tell_changes if arguments.verdict else _draw)(watcher, arguments)
    except KeyboardInterrupt:
        return Answer("")


def _draw(watcher: Watcher, arguments: Namespace) -> Answer:
    """Draw the table repeatedly; without a terminal, print one after the other."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from timing_logger.engine.changes import Changes
    from timing_logger.live.now import MOST_CHANGES, snapshot_text

    changes = Changes()
    last: list[Change] = []
    console = Console(highlight=False, soft_wrap=True)
    text = f"No timing files yet in {arguments.logdir}.\n"
    with Live(Text(text), console=console, auto_refresh=False, transient=True) as live:
        try:
            for snapshot in _looks(watcher, arguments.interval):
                if snapshot is not None:
                    change = changes.after(snapshot.verdict, time.time())
                    last = [*last, *filter(None, [change])][-MOST_CHANGES:]
                    text = snapshot_text(snapshot, terminal_width(), everything=arguments.all, changes=last)
                live.update(Text(text), refresh=True)
                if not console.is_terminal:
                    print(text, flush=True)
        except KeyboardInterrupt:
            pass
    return Answer(text if console.is_terminal else "")


def _tell_changes(watcher: Watcher, arguments: Namespace) -> Answer:
    """Print a line when something is found, when it changes and when it is over."""
    from timing_logger.engine.changes import Changes
    from timing_logger.live.events import change_text, event_line, event_of, run_of

    changes = Changes()
    for snapshot in _looks(watcher, arguments.interval):
        n_looks = 2 if snapshot and snapshot.is_over else 1  # the next would say the same
        for _ in range(n_looks):
            if snapshot and (change := changes.after(snapshot.verdict, time.time())):
                as_json = arguments.json and event_line(event_of(change, run_of(snapshot.files)))
                print(as_json or change_text(change), flush=True)
    return Answer("")


def _looks(watcher: Watcher, interval_s: float) -> Iterator[Snapshot | None]:
    """Yield a snapshot after the other, until the run is over; None while it has no files yet."""
    from timing_logger.errors import NoTimingFilesError

    while True:
        try:
            snapshot = watcher.snapshot()
        except (NoTimingFilesError, FileNotFoundError):
            yield None
        else:
            yield snapshot
            if snapshot.is_over:
                return
        time.sleep(interval_s)


def size_of(path: str) -> str:
    """Return the size of a file that was written, in words."""
    from timing_logger.report import size

    return size(Path(path).stat().st_size)


# -- ``watch --serve``: the page over a run in progress, in a browser ------------------------------------


def _check_serving(arguments: Namespace) -> None:
    """Find what does not go together.

    Raises:
        ConfigurationError: something does not.
    """
    if arguments.serve is None and (arguments.address or arguments.open):
        raise ConfigurationError("--address and --open are for the page in a browser: give --serve, too.")
    if arguments.serve is not None and (arguments.once or arguments.all or arguments.verdict):
        raise ConfigurationError("--serve shows a page in a browser: leave --once, --all and --verdict away.")


def _serve(watcher: Watcher, arguments: Namespace) -> Answer:
    """Serve the page until Ctrl-C.

    Raises:
        ConfigurationError: the port or the address cannot be used, or Jinja2 is not installed.
    """
    from timing_logger.live.page_server import LOOPBACK, PageServer
    from timing_logger.live.run_page import RunPage

    address = arguments.address or LOOPBACK
    title = "/".join(Path(arguments.logdir).resolve().parts[-2:]).lstrip("/")
    page = RunPage(watcher, title, arguments.interval, say)
    page.look()
    server = PageServer(arguments.serve, address, page.served)
    print(f"{server.url}\n{_who_can_read(address)} Stop it with Ctrl-C.", flush=True)
    if arguments.open:
        webbrowser.open(server.url)
    try:
        while True:
            page.wait()
            page.look()
    finally:
        server.close()


def _who_can_read(address: str) -> str:
    from timing_logger.live.page_server import is_loopback

    if is_loopback(address):
        return "Only this machine can reach it, and who knows this address can read it."
    return (
        f"Whoever reaches {address} over the network and knows this address can read it, names of hosts and "
        "operations included; it is not encrypted."
    )
