"""``watch --serve``: the page over a run in progress, in a browser."""

from __future__ import annotations

import webbrowser
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from timing_logger.cli.queries import Answer
from timing_logger.cli.stderr import say
from timing_logger.errors import ConfigurationError

if TYPE_CHECKING:
    from timing_logger.engine.live import Watcher


def check_options(arguments: Namespace) -> None:
    """Find what does not go together.

    Raises:
        ConfigurationError: something does not.
    """
    if arguments.serve is None and (arguments.address or arguments.open):
        raise ConfigurationError("--address and --open are for the page in a browser: give --serve, too.")
    if arguments.serve is not None and (arguments.once or arguments.all or arguments.verdict):
        raise ConfigurationError("--serve shows a page in a browser: leave --once, --all and --verdict away.")


def serve(watcher: Watcher, arguments: Namespace) -> Answer:
    """Serve the page until Ctrl-C.

    Raises:
        ConfigurationError: the port or the address cannot be used, or Jinja2 is not installed.
    """
    from timing_logger.monitoring.page_server import LOOPBACK, PageServer
    from timing_logger.monitoring.run_page import RunPage

    address = arguments.address or LOOPBACK
    page = RunPage(watcher, _title(arguments.logdir), arguments.interval, say)
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


def _title(folder: str) -> str:
    return "/".join(Path(folder).resolve().parts[-2:]).lstrip("/")


def _who_can_read(address: str) -> str:
    from timing_logger.monitoring.page_server import is_loopback

    if is_loopback(address):
        return "Only this machine can reach it, and who knows this address can read it."
    return (
        f"Whoever reaches {address} over the network and knows this address can read it, names of hosts and "
        "operations included; it is not encrypted."
    )
