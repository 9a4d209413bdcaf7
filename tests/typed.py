"""Commands as they are typed."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from masquerade.cli import main as cli


def run(*words: object, stdin: str | None = None) -> str:
    """What a command prints."""
    result = CliRunner().invoke(cli.app, list(map(str, words)), input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence that a command stops with."""
    monkeypatch.setattr(sys, "argv", ["masquerade", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    error = capsys.readouterr().err
    assert stop.value.code == 1 and error.startswith("masquerade: ") and error.count("\n") == 1
    return error
