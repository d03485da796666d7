"""Reading the router's access log."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdback.history.events import Request
from holdback.history.requests import AccessLog, parse


def line(**changes: Any) -> bytes:
    data = {
        "level": "info",
        "ts": 1000.5,
        "logger": "http.log.access.kueue>manager",
        "msg": "handled request",
        "request": {"method": "GET", "uri": "/apis/kueue.x-k8s.io/v1beta1/workloads?watch=true&limit=5"},
        "duration": 0.25,
        "status": 200,
        "client": "kueue",
        "cluster": "manager",
        "lane": "reads",
        "agent": "kueue/v0.17.0",
    }
    return json.dumps({**data, **changes}).encode()


def test_a_line_becomes_a_request() -> None:
    """Path and query are taken apart, and the time is that of the answer."""
    expected = Request(
        1000.5, "kueue", "manager", "GET", "/apis/kueue.x-k8s.io/v1beta1/workloads", 200, 0.25, watch=True
    )
    assert parse(line()) == expected


@pytest.mark.parametrize(
    ("query", "watch"),
    [("?watch=1", True), ("?watch=false", False), ("", False), ("?fieldSelector=watch%3Dtrue", False)],
)
def test_a_watch_is_known_by_its_query(query: str, watch: bool) -> None:
    """Only a true `watch` parameter makes a watch."""
    request = parse(line(request={"method": "GET", "uri": f"/api/v1/pods{query}"}))
    assert request is not None
    assert request.watch is watch


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"{",
        b"null",
        b"[1]",
        b"\xff\xfe",
        line()[:80],
        line(status="?"),
        line(request=None),
        line(agent="holdback/0.1"),
    ],
)
def test_what_is_no_request_of_a_controller_is_passed_over(bad: bytes) -> None:
    """Damaged lines and our own requests are no requests."""
    assert parse(bad) is None


def test_a_line_that_is_being_written_waits_for_its_end(tmp_path: Path) -> None:
    """Every line is read once, whatever pieces it is written in, and a missing file is no error."""
    path = tmp_path / "access.log"
    with closing(AccessLog(path)) as log:
        assert log.read() == []
        text = line() + b"\n" + line(ts=1001.0) + b"\n"
        seen: list[float] = []
        for start in range(0, len(text), 100):
            with path.open("ab") as file:
                file.write(text[start : start + 100])
            seen += [request.at for request in log.read()]
    assert seen == [1000.5, 1001.0]
