"""Takes a node out of Slurm when a rank on it is found slow, and says what it would do before it is allowed to.

Events come as lines of JSON, as `verdicts.jsonl` and `timing-logger watch --verdict --json` have them:

    tail -n 0 -F logs/timing/verdicts.jsonl | python examples/drain_slow_nodes.py

or, with --listen, as the POSTs of a webhook. Then whoever posts must know what the variable DRAIN_TOKEN holds, and
send it as `Authorization: Bearer ...`.

A node is named if its machine is to blame for certain: not for a hang, whose culprit may wait for a file
system, and not for a rank that only has more to do. What is drained stays so until somebody looks at it.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")  # what Slurm would take for a range of nodes is no node
MOST_BYTES = 2**20
LIMIT_S = 30


def nodes_to_drain(event: dict[str, Any], least_share: float) -> list[str]:
    """Return the nodes whose own slowness costs a run at least this share of its time."""
    is_certain = (event.get("event"), event.get("verdict"), event.get("owner")) == (
        "verdict",
        "rank",
        "machine",
    )
    if not is_certain or event.get("change") == "ends" or (event.get("cost_share") or 0) < least_share:
        return []
    named = [str(one["node"]) for one in event["named"] if one["node"]]
    return [node for node in dict.fromkeys(named) if NODE.fullmatch(node)]


class Drain:
    """Drains nodes, each once, and no more than so many as long as this program runs."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._done: set[str] = set()
        self._lock = Lock()

    def act_on(self, event: dict[str, Any]) -> None:
        with self._lock:
            for node in nodes_to_drain(event, self._options.least_share):
                if node not in self._done:
                    self._drain(node, event)

    def _drain(self, node: str, event: dict[str, Any]) -> None:
        if len(self._done) == self._options.most:
            print(f"{node} is left alone: {self._options.most} drained already", flush=True)
            return
        share = f"{event['cost_share']:.0%} of job {event['job_id'] or event['run_id'] or 'unknown'}"
        reason = f"timing_logger: {event['operation']} is slow and costs {share}"
        command = ["scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}"]
        self._done.add(node)
        if not self._options.drain:
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
        if not hmac.compare_digest(self.headers["Authorization"] or "", f"Bearer {self.token}"):
            return self.send_error(401)
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return self.send_error(413)
        try:
            event = json.loads(self.rfile.read(int(length)))
        except ValueError:
            return self.send_error(400)
        self.send_response(204)
        self.end_headers()
        return self.drain.act_on(event)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--drain", action="store_true", help="call scontrol; without it, only say how it would be called"
    )
    parser.add_argument(
        "--least-share", type=float, default=0.1, help="of the time of the run that it must cost (0.1)"
    )
    parser.add_argument("--most", type=int, default=1, help="how many nodes may be drained in all (1)")
    parser.add_argument("--listen", metavar="HOST:PORT", help="take POSTs here, instead of lines from stdin")
    options = parser.parse_args()
    drain = Drain(options)
    if options.listen is None:
        for line in sys.stdin:
            drain.act_on(json.loads(line))
        return
    host, _, port = options.listen.rpartition(":")
    Webhook.drain, Webhook.token = drain, os.environ["DRAIN_TOKEN"]
    with ThreadingHTTPServer((host, int(port)), Webhook) as server:
        print(f"listening at {host}:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
