"""The events of a Chrome trace, whatever they are cut into, and what is said of a trace that is none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from timing_logger.errors import NotImportableError
from timing_logger.importing import trace_events
from timing_logger.importing.imported import LeftOut
from timing_logger.importing.trace_events import Event, read_trace

CUT = "the end of a trace that is cut or damaged"
NO_EVENT = "an event that is none: its name, kind or times are of a wrong type"
A, B, C = ({"name": name, "ph": "X", "ts": at, "dur": 2.5} for name, at in (("a", 1), ("b", 3.5), ("c", 7)))


def read(path: Path, content: bytes) -> tuple[list[Event], dict[str, Any], LeftOut]:
    """Return the events of a trace with this content, its members, and what was left out."""
    path.write_bytes(content)
    events: list[Event] = []
    left_out = LeftOut()
    return events, read_trace(path, events.extend, left_out), left_out


def names(events: list[Event]) -> str:
    return "".join(event.name for event in events)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.json"


@pytest.fixture(params=[1, 2**22], ids=lambda n_bytes: f"blocks of {n_bytes}")
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace is read in blocks of so many bytes."""
    monkeypatch.setattr(trace_events, "_BLOCK_BYTES", request.param)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf", b" \r\n\t"], ids=["nothing", "a mark", "blanks"])
def test_the_events_and_the_members_around_them_are_read(path: Path, head: bytes) -> None:
    trace = {"base": 5, "traceEvents": [A, B, C], "after": [6], "last": None}
    events, members, left_out = read(path, head + json.dumps(trace, indent=1).encode())
    assert [(one.name, one.ph, one.ts, one.dur) for one in events] == [
        ("a", "X", 1.0, 2.5), ("b", "X", 3.5, 2.5), ("c", "X", 7.0, 2.5),
    ]  # fmt: skip
    assert members == {"base": 5, "traceEvents": [], "after": [6], "last": None}
    assert not left_out


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("end", [b"]", b"", b",", b" ,\r\n\t", b"]\n"])
def test_a_trace_that_is_only_its_events_may_lack_their_end(path: Path, end: bytes) -> None:
    events, members, left_out = read(path, json.dumps([A, B])[:-1].encode() + end)
    assert (names(events), members, left_out) == ("ab", {}, {})


@pytest.mark.usefixtures("blocks")
def test_what_lies_within_an_event_ends_none(path: Path) -> None:
    nested = {**A, "args": {"x": [{"y": 1}, {"y": [{}, {"z": "}, {"}]}, {}], "stream": 7}}
    events, _, left_out = read(path, json.dumps({"traceEvents": [nested, B]}).encode())
    assert (names(events), left_out) == ("ab", {})
    assert events[0].args is not None
    assert events[0].args.stream == 7


def test_what_an_event_does_not_say_is_blank_or_0(path: Path) -> None:
    ((event,), _, _) = read(path, b'{"traceEvents": [{}]}')
    assert event == Event("", "", "", None, None, 0.0, 0.0, None)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("wrong", [{"name": 5}, {"ts": "1"}, {"dur": None}, 7, "text", {"args": []}])
def test_an_event_that_is_none_is_counted_and_the_others_are_read(path: Path, wrong: Any) -> None:
    events, _, left_out = read(path, json.dumps({"traceEvents": [A, wrong, B]}).encode())
    assert (names(events), left_out) == ("ab", {NO_EVENT: 1})


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize(
    "content",
    [
        b'{"traceEvents": [{"name": "a"}, {"name": "b"',
        b'{"traceEvents": [{"name": "a"}',
        b'{"traceEvents": [{"name": "a"}, ',
        b'[{"name": "a"}, {"na',
        b'{"traceEvents": [{"name": "a"}], "after": ',
        b'{"traceEvents": [{"name": "a"}]',
    ],
)
def test_a_trace_that_is_cut_is_read_up_to_there_and_that_is_counted(path: Path, content: bytes) -> None:
    events, _, left_out = read(path, content)
    assert (names(events), left_out) == ("a", {CUT: 1})


def test_a_compressed_trace_with_a_damaged_end_is_read_and_that_is_counted(path: Path) -> None:
    whole = gzip.compress(b'{"traceEvents": [{"name": "a"}], "after": 1}')
    events, members, left_out = read(path, whole + b"no member")
    assert (names(events), members["after"], left_out) == ("a", 1, {CUT: 1})


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b" \n", b"{}", b'{"a": 1}', b'{"traceEvents": 7}', b'{"a": , "traceEvents": []}', b"7"],
)
def test_what_has_no_list_of_events_is_no_trace(path: Path, content: bytes) -> None:
    with pytest.raises(NotImportableError, match=r"trace\.json' is no Chrome trace: it has no list"):
        read(path, content)


def test_what_does_not_begin_like_an_object_is_refused_before_all_of_it_is_read(path: Path) -> None:
    reader = trace_events._Reader(path, lambda events: None, LeftOut())
    reader.add(b" \n")
    with pytest.raises(NotImportableError):
        reader.add(b"x")


def test_of_what_stands_before_the_events_no_more_is_held_than_may_be(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_events, "_MOST_HEAD_BYTES", 40)
    reader = trace_events._Reader(path, lambda events: None, LeftOut())
    reader.add(b'{"a": "' + b"x" * 33)
    with pytest.raises(NotImportableError):
        reader.add(b"x")


def test_of_what_stands_behind_the_events_no_more_is_held_either_and_that_cuts_no_event(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_events, "_MOST_HEAD_BYTES", 40)
    events: list[Event] = []
    left_out = LeftOut()
    reader = trace_events._Reader(path, events.extend, left_out)
    for block in (b'{"traceEvents": [{"name": "a"}]', b', "after": "' + b"x" * 40, b'"}'):
        reader.add(block)
    reader.end()
    assert (names(events), left_out) == ("a", {CUT: 1})


def test_an_event_that_does_not_end_is_given_up_and_so_is_what_comes_behind(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_events, "_MOST_EVENT_BYTES", 30)
    events: list[Event] = []
    left_out = LeftOut()
    reader = trace_events._Reader(path, events.extend, left_out)
    reader.add(b'{"traceEvents": [{"name": "a"}, ')
    reader.add(b'{"name": "' + b"b" * 20)
    assert not left_out
    reader.add(b"b")
    assert left_out == {CUT: 1}
    reader.add(b'"}, {"name": "c"}]}')
    assert reader.end() == {"traceEvents": []}
    assert (names(events), left_out) == ("a", {CUT: 1})


@pytest.mark.parametrize(
    ("text", "end"),
    [(b'{"a":1} ,', 7), (b"},", 1), (b"{}", -1), (b"", -1), (b"},{}", 1), (b"},},{", 3)],
)
def test_the_last_object_ends_where_a_comma_follows(text: bytes, end: int) -> None:
    assert trace_events._end_before(text, len(text)) == end
