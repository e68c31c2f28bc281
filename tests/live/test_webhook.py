"""A webhook is posted to over HTTP and HTTPS, its answer is understood, and no secret of it is shown."""

from __future__ import annotations

import json
import pickle
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from http_receivers import (
    Answer,
    closed_port,
    hangs_up,
    holds,
    receiving,
    status,
    talks_rubbish,
    trickles,
)
from limits import PROCESS_S
from slow import slow

from timing_logger.errors import ConfigurationError
from timing_logger.live.delivery import NotDelivered
from timing_logger.live.webhook import Webhook

EVENT = {"id": "1", "text": "rank 2 is slow"}
SECRET = "T0P-S3CRET"
SHORT_S = 1.0  # much more than what is between two bytes that trickle


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def refusal(url: str, timeout_s: float = 5.0) -> NotDelivered:
    with pytest.raises(NotDelivered) as refused:
        Webhook(f"{url}/{SECRET}", timeout_s, {"Authorization": SECRET}).receive(EVENT)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None
    return refused.value


def test_an_event_is_posted_as_json_with_the_headers_that_are_given() -> None:
    with receiving(status(204)) as server:
        Webhook(f"{server.url}/hook?key={SECRET}", headers={"Authorization": "Bearer 1"}).receive(EVENT)
    assert (server.bodies, server.paths) == ([EVENT], [f"/hook?key={SECRET}"])
    (headers,) = server.headers
    assert (headers["Content-Type"], headers["Authorization"]) == ("application/json", "Bearer 1")


@pytest.mark.parametrize("code", [408, 429, 500, *(slow(code, "as 500") for code in (502, 503))])
def test_one_that_is_busy_or_broken_is_asked_again(code: int) -> None:
    with receiving(status(code)) as server:
        refused = refusal(server.url)
    assert (str(refused), refused.may_later) == (f"it answers {code}", True)


@pytest.mark.parametrize("code", [400, 413, *(slow(code, "as 400") for code in (401, 403, 404, 410))])
def test_one_that_refuses_is_not_asked_again(code: int) -> None:
    with receiving(status(code)) as server:
        refused = refusal(server.url)
    assert (str(refused), refused.may_later) == (f"it answers {code}", False)


@pytest.mark.parametrize(
    ("asked", "pause_s"), [("7", 7.0), ("0", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0), ("-1", 0.0)]
)
def test_a_pause_that_is_asked_for_in_seconds_is_granted(asked: str, pause_s: float) -> None:
    with receiving(status(429, Retry_After=asked)) as server:
        assert refusal(server.url).pause_s == pause_s


@pytest.mark.parametrize("code", [301, 308, *(slow(code, "as 301") for code in (302, 303, 307))])
def test_a_redirect_is_not_followed_since_secrets_are_for_the_place_that_was_named(code: int) -> None:
    with receiving(status(200)) as elsewhere, receiving(status(code, Location=elsewhere.url)) as server:
        refused = refusal(server.url)
        assert elsewhere.bodies == []
    assert str(refused).startswith(f"it answers {code}, and redirects are not followed")
    assert not refused.may_later


@pytest.mark.slow("waits for a time limit; what is sent and answered is quick")
@pytest.mark.parametrize("answer", [holds, trickles])
def test_the_time_limit_is_one_for_all_of_the_answer(answer: Answer) -> None:
    with receiving(answer) as server:
        refused = refusal(server.url, SHORT_S)
        assert not server.release.is_set()
    assert (str(refused), refused.may_later) == ("it does not answer within 1 s", True)


def test_a_connection_that_is_cut_is_tried_again() -> None:
    with receiving(hangs_up) as server:
        refused = refusal(server.url)
    assert (str(refused), refused.may_later) == ("there is no connection, or it was cut", True)


def test_a_port_at_which_nobody_listens_is_tried_again() -> None:
    assert refusal(f"http://127.0.0.1:{closed_port()}").may_later


def test_what_speaks_another_protocol_is_said() -> None:
    with receiving(talks_rubbish) as server:
        assert str(refusal(server.url)) == "its answer is not one of HTTP"


def test_a_name_that_is_not_resolved_is_said_and_tried_again() -> None:
    refused = refusal("http://no-such-host.invalid")  # RFC 6761: never resolved
    assert (str(refused), refused.may_later) == ("its name cannot be resolved", True)


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(status(200)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        Webhook("http://no-such-host.invalid/hook").receive(EVENT)
    assert proxy.paths == ["http://no-such-host.invalid/hook"]


# -- HTTPS --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a certificate that nobody else signed, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    made, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(key), "-out", str(made)],
        check=True, capture_output=True, timeout=PROCESS_S,
    )  # fmt: skip
    return made, key


def posted_with_tls(certificate: tuple[Path, Path], host: str, answer: Answer, timeout_s: float = 5.0) -> Any:
    """Post to a server that has this certificate; return what it got, or the refusal."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with receiving(answer) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        try:
            Webhook(f"https://{host}:{server.server_port}/{SECRET}", timeout_s).receive(EVENT)
        except NotDelivered as refused:
            return refused
    return server.bodies


def test_a_certificate_that_is_not_known_is_refused_once_and_for_all(certificate: tuple[Path, Path]) -> None:
    refused = posted_with_tls(certificate, "localhost", status(200))
    assert str(refused).startswith("its certificate is not accepted: self")
    assert not refused.may_later


def test_a_certificate_that_the_environment_names_is_accepted(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert posted_with_tls(certificate, "localhost", status(200)) == [EVENT]


def test_a_certificate_for_another_host_is_refused(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    refused = posted_with_tls(certificate, "127.0.0.1", status(200))
    assert "not accepted" in str(refused)


@pytest.mark.slow("waits for a time limit; what is sent and answered is quick")
def test_the_time_limit_holds_over_tls(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    refused = posted_with_tls(certificate, "localhost", trickles, SHORT_S)
    assert str(refused) == "it does not answer within 1 s"


# -- options ------------------------------------------------------------------------------------------------


def test_no_secret_is_in_what_is_shown_of_a_webhook() -> None:
    webhook = Webhook(f"https://hooks.example.org:8443/{SECRET}?a={SECRET}", headers={"X": SECRET})
    assert SECRET not in f"{webhook} {webhook.name}"
    assert webhook.name == "the webhook at https://hooks.example.org:8443"


def test_a_secret_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(status(200)) as server:
        monkeypatch.setenv("HOOK", f"{server.url}/{SECRET}")
        monkeypatch.setenv("TOKEN", SECRET)
        webhook = Webhook("env:HOOK", headers={"Authorization": "env:TOKEN"})
        assert SECRET not in json.dumps(webhook.to_json())
        monkeypatch.delenv("HOOK")
        webhook.receive(EVENT)
    assert (server.paths, server.headers[0]["Authorization"]) == ([f"/{SECRET}"], SECRET)


def test_a_webhook_is_the_same_after_json_and_after_pickling() -> None:
    webhook = Webhook("https://a.example", 2.5, {"X": "1"}, 3)
    assert Webhook.from_json(json.loads(json.dumps(webhook.to_json()))) == webhook
    assert pickle.loads(pickle.dumps(webhook)) == webhook


def test_what_is_left_out_is_as_documented_and_limits_may_be_reached() -> None:
    assert Webhook("https://a") == Webhook("https://a", 5.0, {}, 5)
    longest = Webhook("https://a:1", 600.0, retries=100)
    assert (longest.timeout_s, longest.retries) == (600.0, 100)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Webhook(f"ftp://a/{SECRET}"), "url is no address"),
    (lambda: Webhook(f"https:///{SECRET}"), "url is no address"),
    (lambda: Webhook(f"https://a:99999/{SECRET}"), "url is no address"),
    (lambda: Webhook(f"https://me:{SECRET}@a/"), "Authorization instead"),
    (lambda: Webhook(f"https://a/{SECRET}\r\nX: 1"), "to be written as %XX"),
    (lambda: Webhook(""), "url is empty"),
    (lambda: Webhook(3), "url is no text"),  # type: ignore[arg-type]
    (lambda: Webhook("env:NO_SUCH_VARIABLE"), "'NO_SUCH_VARIABLE' is not set"),
    (lambda: Webhook("https://a", 0), "timeout_s=0 is no time"),
    (lambda: Webhook("https://a", float("nan")), "timeout_s=nan is no time"),
    (lambda: Webhook("https://a", True), "timeout_s=True is no time"),
    (lambda: Webhook("https://a", 600.5), "timeout_s=600.5 is no time"),
    (lambda: Webhook("https://a", retries=101), "retries=101 is out of range"),
    (lambda: Webhook("https://a:0"), "url is no address"),
    (lambda: Webhook("https://a", retries=-1), "retries=-1 is out of range"),
    (lambda: Webhook("https://a", retries=1.0), "retries=1.0 is out of range"),  # type: ignore[arg-type]
    (lambda: Webhook("https://a", headers={"A b": SECRET}), "no name of a header"),
    (lambda: Webhook("https://a", headers={"A": f"{SECRET}\n"}), "not of printable ASCII"),
    (lambda: Webhook("https://a", headers=[SECRET]), "headers is no mapping"),  # type: ignore[arg-type]
    (lambda: Webhook.from_json({"url": f"https://a/{SECRET}", "retry": 1}), "nothing but url, timeout_s"),
    (lambda: Webhook.from_json({}), "an object with url"),
    (lambda: Webhook.from_json([SECRET]), "an object with url"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_what_is_no_webhook_is_refused_at_once_and_no_secret_is_shown(
    make: Callable[[], object], said: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make()
    assert said in str(refused.value)
    assert SECRET not in str(refused.value)
