"""Tokens in files are read again before anyone notices that they changed."""

import asyncio
from pathlib import Path

import pytest
from structlog.typing import EventDict

from karpenter.kube.http import Certificate, Credentials, StaticCredentials, TokenFile, bearer
from karpenter_local.virtual import VirtualClock

CERTIFICATE = Certificate("a.crt", "a.key")


def write(file: Path, text: str | None) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A token as the kubelet writes it."""
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


async def test_fixed_credentials_never_change() -> None:
    """There is nothing else to try when they are refused."""
    fixed: Credentials = StaticCredentials(
        token="t", certificate=CERTIFICATE, extra=(("impersonate-user", "me"),)
    )

    shown = await fixed.headers()

    assert shown == (("authorization", "Bearer t"), ("impersonate-user", "me"))
    assert (await fixed.renew(shown), fixed.certificate) == (False, CERTIFICATE)


async def test_a_token_file_is_read_again_every_minute(file: Path) -> None:
    """A rotated token is used within a minute, without asking."""
    credentials = TokenFile(file, clock=VirtualClock(), extra=(("x", "y"),))
    write(file, "second\n")

    await asyncio.sleep(59)
    before = await credentials.headers()
    await asyncio.sleep(1)

    assert before == (*bearer("first"), ("x", "y"))
    assert await credentials.headers() == (*bearer("second"), ("x", "y"))


async def test_a_refused_token_is_read_again_at_once(file: Path) -> None:
    """A token that rotated early is found when the server says no."""
    credentials = TokenFile(file, clock=VirtualClock())
    shown = await credentials.headers()

    assert not await credentials.renew(shown)
    write(file, "second")
    assert await credentials.renew(shown)
    assert await credentials.headers() == bearer("second")


async def test_a_token_file_that_disappears(file: Path, logs: list[EventDict]) -> None:
    """The last token serves on, and the loss is logged."""
    credentials = TokenFile(file, clock=VirtualClock())
    write(file, None)
    await asyncio.sleep(60)

    assert await credentials.headers() == bearer("first")
    assert [log["event"] for log in logs] == ["token.unreadable"]


async def test_a_token_file_that_is_empty_for_a_moment(file: Path) -> None:
    """While a file is being rewritten, the last token serves on."""
    credentials = TokenFile(file, clock=VirtualClock())
    write(file, "")
    await asyncio.sleep(60)

    assert await credentials.headers() == bearer("first")


async def test_a_token_file_that_was_never_there(tmp_path: Path) -> None:
    """Starting without a token is an error at once."""
    with pytest.raises(FileNotFoundError):
        TokenFile(tmp_path / "nowhere", clock=VirtualClock())
