"""Work that takes long says what it does."""

from __future__ import annotations

from time import sleep

import pytest

from karpenter.cli.errors import progress


def test_short_work_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    """What is over before people wonder says nothing."""
    with progress(patience=5.0) as doing:
        doing("reading the cluster")

    assert capsys.readouterr() == ("", "")


def test_long_work_says_what_it_does_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line has the step of the moment and the seconds so far, on standard error, though it is a pipe."""
    with progress(patience=0.01, every=0.02) as doing:
        doing("reading the cluster")
        sleep(0.05)
        doing("deciding about 3 pods")
        sleep(0.05)
    out, err = capsys.readouterr()

    assert out == ""
    assert set(err.splitlines()) == {"reading the cluster (0 s)", "deciding about 3 pods (0 s)"}


def test_an_error_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    """What fails is not said to go on."""
    with pytest.raises(ValueError, match="bad"), progress(patience=0.01, every=0.01):
        raise ValueError("bad")
    capsys.readouterr()
    sleep(0.03)

    assert capsys.readouterr() == ("", "")
