"""Progress: a line now and then where the output is no terminal, and nothing for what is soon done."""

from __future__ import annotations

import time

import pytest

from masquerade.progress import SECONDS, progress_bar


def test_lines_come_now_and_then_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with progress_bar("windows", 100) as done:
        for _ in range(20):
            clock[0] += SECONDS / 4
            done(5)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "windows: 20 of 100, 2.0/s, 40 s left"
    assert len(lines) == 4  # one every four calls, and none for the end


def test_what_takes_little_time_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (True, False):
        with progress_bar("windows", 3, shown) as done:
            done(1)
            done(2)
    assert capsys.readouterr() == ("", "")
