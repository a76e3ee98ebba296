"""Files that only their owner may read, reading up to a limit, and writing all or nothing."""

import gzip
import os
import stat
from errno import ENOSPC
from io import BytesIO
from pathlib import Path

import pytest

from karpenter.base.files import (
    bounded_lines,
    make_private_folder,
    private,
    read_bounded,
    unzip_bounded,
    write_whole,
)


def test_what_is_created_is_for_its_owner_only(tmp_path: Path) -> None:
    """A file has the mode 0600 and its folder 0700, whatever the umask allows."""
    folder = tmp_path / "above" / "folder"
    make_private_folder(folder)
    make_private_folder(folder)
    file = folder / "file"
    with open(file, "wb", opener=private) as opened:
        opened.write(b"x")

    assert (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)


def test_reading_stops_at_a_limit(tmp_path: Path) -> None:
    """A file up to the limit is read whole; one that is larger, or has no end, is too large."""
    file = tmp_path / "file"
    file.write_bytes(b"abc")

    assert read_bounded(file, 3) == b"abc"
    with pytest.raises(OSError, match="File too large"):
        read_bounded(file, 2)
    with pytest.raises(OSError, match="File too large"):
        read_bounded(Path("/dev/zero"))


def test_lines_have_a_limit() -> None:
    """Lines come one by one; one that is too long ends it, also where it has no end."""
    assert list(bounded_lines(BytesIO(b"a\nbc\n\nd"), 3)) == [b"a\n", b"bc\n", b"\n", b"d"]
    with pytest.raises(OSError, match="File too large"):
        list(bounded_lines(BytesIO(b"a\nabcd\n"), 3))
    with Path("/dev/zero").open("rb") as endless, pytest.raises(OSError, match="File too large"):
        list(bounded_lines(endless, 1000))


def test_unpacking_has_a_limit() -> None:
    """What gzip has packed is read up to a limit, so that a small text cannot fill the memory."""
    packed = gzip.compress(bytes(10_000))

    assert unzip_bounded(packed, 10_000) == bytes(10_000)
    with pytest.raises(OSError, match="File too large"):
        unzip_bounded(packed, 9_999)


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk is full the old text is still there, and no draft beside it; a link stays a link."""
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_whole(link, "new")

    def is_full(_: int) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", is_full)
    with pytest.raises(OSError, match="No space left on device"):
        write_whole(link, "newest")

    assert (file.read_text(), link.is_symlink(), sorted(tmp_path.iterdir())) == ("new", True, [file, link])
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
