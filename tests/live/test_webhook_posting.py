"""What an answer of a receiver means, or that there is none: in our words, and whether it is asked again."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from email.message import Message
from types import SimpleNamespace
from typing import Any
from urllib import error

import pytest

from timing_logger.live import webhook
from timing_logger.live.delivery import NotDelivered
from timing_logger.live.webhook import _Limit, _no_answer, _refusal

SECRET = "https://a.example/secret"


def answered(code: int, retry_after: str | None = None) -> error.HTTPError:
    headers = Message()
    if retry_after is not None:
        headers["Retry-After"] = retry_after
    return error.HTTPError(SECRET, code, "reason", headers, None)


@pytest.mark.parametrize(
    ("code", "may_later"),
    [
        (400, False), (404, False), (408, True), (409, False), (425, True), (429, True), (499, False),
        (500, True), (503, True), (299, False),
    ],
)  # fmt: skip
def test_one_that_is_busy_or_broken_may_take_it_later(code: int, may_later: bool) -> None:
    found = _refusal(answered(code))
    assert (str(found), found.may_later, found.pause_s) == (f"it answers {code}", may_later, 0.0)


@pytest.mark.parametrize("code", [300, 301, 399])
def test_a_redirect_is_never_followed_and_not_tried_again(code: int) -> None:
    found = _refusal(answered(code, "7"))
    assert str(found).startswith(f"it answers {code}, and redirects are not followed")
    assert not found.may_later


@pytest.mark.parametrize(
    ("asked", "pause_s"), [("7", 7.0), ("", 0.0), ("-1", 0.0), ("1.5", 0.0), ("Fri, 31 Dec", 0.0), ("٣", 0.0)]
)
def test_a_pause_counts_if_it_is_a_number_of_seconds(asked: str, pause_s: float) -> None:
    assert _refusal(answered(503, asked)).pause_s == pause_s


def not_verified() -> ssl.SSLCertVerificationError:
    found = ssl.SSLCertVerificationError(1, SECRET)
    found.verify_message = "self-signed"
    return found


@pytest.mark.parametrize(
    ("trouble", "said", "may_later"),
    [
        (not_verified(), "its certificate is not accepted: self-signed", False),
        (TimeoutError(), "it does not answer within 2.5 s", True),
        (socket.gaierror(-2, SECRET), "its name cannot be resolved", True),
        (ConnectionResetError(), "there is no connection, or it was cut", True),
        (http.client.BadStatusLine(SECRET), "its answer is not one of HTTP", True),
        (OSError(113, "No route to host"), "it cannot be reached: No route to host", True),
        (ValueError(SECRET), "it cannot be reached: ValueError", True),
    ],
)
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_why_there_is_no_answer_is_said_without_the_address(
    trouble: Exception, said: str, may_later: bool, is_wrapped: bool
) -> None:
    found = _no_answer(error.URLError(trouble) if is_wrapped else trouble, _Limit(9.0), 2.5)  # type: ignore[arg-type]
    assert (str(found), found.may_later) == (said, may_later)
    assert "secret" not in str(found)


def test_whatever_fails_when_the_time_is_over_fails_because_of_that() -> None:
    limit = _Limit(9.0)
    limit._end()
    assert str(_no_answer(ConnectionResetError(), limit, 9.0)) == "it does not answer within 9 s"


def test_at_the_end_of_the_time_connections_are_ended_also_those_that_come_later() -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    with _Limit(9.0) as limit:
        limit.applies_to(pairs[0][0])
        limit._end()
        assert limit.is_over
        limit.applies_to(pairs[1][0])
        for ours, theirs in pairs:
            with ours, theirs:
                theirs.settimeout(5.0)
                assert theirs.recv(1) == b""  # else it waits


def test_a_request_that_is_done_leaves_no_timer_and_no_connection() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with _Limit(9.0) as limit:
            assert limit._timer.daemon
            assert limit._timer.is_alive()
            limit.applies_to(ours)
        limit._timer.join(5.0)
        assert not limit._timer.is_alive()
        assert not limit.is_over
        assert limit._connections[0].fileno() == -1
        assert ours.fileno() != -1


def post_that_is_answered_by(answer: Callable[[_Limit], Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """Post to one that answers so, and return why it is not delivered."""

    def opener(url: str, limit: _Limit) -> SimpleNamespace:
        return SimpleNamespace(open=lambda asked, timeout: answer(limit))

    monkeypatch.setattr(webhook, "_opener", opener)
    with pytest.raises(NotDelivered) as refused:
        webhook.post(SECRET, b"{}", {}, 9.0)
    return str(refused.value)


def test_an_answer_that_is_no_success_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    found, closed = answered(503), list[bool]()
    monkeypatch.setattr(found, "close", lambda: closed.append(True))

    def refuses(limit: _Limit) -> None:
        raise found

    assert post_that_is_answered_by(refuses, monkeypatch) == "it answers 503"
    assert closed == [True]


def test_headers_that_end_with_the_time_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(limit: _Limit) -> AbstractContextManager[None]:
        limit._end()
        return nullcontext()

    assert post_that_is_answered_by(ends, monkeypatch) == "it does not answer within 9 s"
