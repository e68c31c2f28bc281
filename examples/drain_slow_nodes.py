"""Takes a node out of Slurm when a rank on it is found slow; or says what it would do, until it may.

Events come as lines of JSON, as `verdicts.jsonl` and `timing-logger watch --verdict --json` have them:

    tail -n 0 -F logs/timing/verdicts.jsonl | python examples/drain_slow_nodes.py

or, with --listen, as the POSTs of a webhook. Whoever posts must know what the variable DRAIN_TOKEN holds,
and send it as `Authorization: Bearer ...`.

A node is drained if a rank is named and its machine to blame: not for a hang, whose culprit may wait for a
file system, and not for a rank that only has more to do. It stays drained until somebody looks at it.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")  # what Slurm would take for a list of nodes is none
OF_THE_MACHINE = {"event": "verdict", "verdict": "rank", "owner": "machine"}
MOST_BYTES = 2**20
LIMIT_S = 30


def nodes_to_drain(event: dict[str, Any], least_share: float) -> Iterator[str]:
    """Yield the nodes whose own slowness costs a run at least this share of its time."""
    if not OF_THE_MACHINE.items() <= event.items() or event["change"] == "ends":
        return
    if (event["cost_share"] or 0) >= least_share:
        for named in event["named"]:
            node = (named["node"] or "").partition(".")[0]  # Slurm mostly knows nodes without their domain
            if NODE.fullmatch(node):
                yield node


class Drain:
    """Drains nodes, each once, and not more than so many in all."""

    def __init__(self, *, may_act: bool, least_share: float, most: int) -> None:
        self._may_act = may_act
        self._least_share = least_share
        self._most = most
        self._done: set[str] = set()
        self._lock = Lock()

    def act_on(self, text: str | bytes) -> None:
        """Do what an event asks for; what is none is said."""
        with self._lock:
            try:
                event = json.loads(text)
                for node in nodes_to_drain(event, self._least_share):
                    if node not in self._done:
                        self._drain(node, event)
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                print(f"this is no event: {error!r}", file=sys.stderr, flush=True)

    def _drain(self, node: str, event: dict[str, Any]) -> None:
        if len(self._done) == self._most:
            print(f"{node} is left alone, as {self._most} is the most", flush=True)
            return
        run = event["job_id"] or event["run_id"] or "a run"
        reason = f"timing_logger: {event['operation']} is slow, costs {event['cost_share']:.0%} of {run}"
        command = ["scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}"]
        self._done.add(node)
        if not self._may_act:
            print(f"with --drain: {' '.join(command)}", flush=True)
            return
        try:
            subprocess.run(command, check=True, timeout=LIMIT_S)
            print(f"drained {node}: {reason}", flush=True)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{node} was not drained: {error}", file=sys.stderr, flush=True)


class Webhook(BaseHTTPRequestHandler):
    """Takes events from whoever knows the token; answers at once, and acts then."""

    timeout = LIMIT_S
    drain: Drain
    token: str

    def do_POST(self) -> None:
        length = self.headers["Content-Length"] or ""
        given = (self.headers["Authorization"] or "").encode()
        if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
            self.send_error(401)
        elif not length.isdecimal() or int(length) > MOST_BYTES:
            self.send_error(413)
        else:
            event = self.rfile.read(int(length))
            self.send_response(204)
            self.end_headers()
            self.drain.act_on(event)


def listen(address: str, drain: Drain) -> None:
    host, _, port = address.rpartition(":")
    Webhook.drain, Webhook.token = drain, os.environ["DRAIN_TOKEN"]
    with ThreadingHTTPServer((host, int(port)), Webhook) as server:
        print(f"listening at {host}:{server.server_port}", flush=True)
        server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="Drain nodes that are found slow.")
    parser.add_argument("--drain", action="store_true", help="call scontrol; else only say how")
    parser.add_argument("--least-share", type=float, default=0.1, help="of the run's time (0.1)")
    parser.add_argument("--most", type=int, default=1, help="nodes that may be drained in all (1)")
    parser.add_argument("--listen", metavar="HOST:PORT", help="take POSTs here, and not lines from stdin")
    options = parser.parse_args()
    drain = Drain(may_act=options.drain, least_share=options.least_share, most=options.most)
    if options.listen:
        listen(options.listen, drain)
    for line in sys.stdin:
        drain.act_on(line)


if __name__ == "__main__":
    main()
