"""
Files: reading no more than fits, writing all or nothing, and what only its owner may read.

A path may lead to a device without an end, such as /dev/zero. Reading stops at a limit with the error of the
operating system for a file that is too large.
"""

from __future__ import annotations

import gzip
import os
import stat
from errno import EFBIG
from io import BytesIO
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGEST_TEXT: Final = 1024**3
"""Bytes of the largest manifest that is read: a dump of a large cluster has some hundred million."""

LARGEST_SETTING: Final = 16 * 1024**2
"""Bytes of the largest file of settings, credentials and the like."""

LARGEST_LINE: Final = 256 * 1024**2
"""Bytes of the longest line of a record, which may hold a whole cluster."""

_CHUNK_BYTES: Final = 1024**2


def read_bounded(path: Path, limit: int = LARGEST_SETTING) -> bytes:
    """
    Return the content of a file.

    Raises:
        OSError: it cannot be read, or is larger than `limit`.
    """
    with path.open("rb") as file:
        return read_stream(file, limit, name=str(path))


def read_stream(stream: IO[bytes], limit: int, *, name: str) -> bytes:
    """
    Return the rest of a stream. What begins with a null byte is not read on: no text does.

    Raises:
        OSError: there is more than `limit`.
    """
    found = bytearray()
    while chunk := stream.read(_CHUNK_BYTES):
        endless = not found and chunk[0] == 0 and not _is_regular(stream)
        found += chunk
        if endless or len(found) > limit:
            raise _too_large(name)
    return bytes(found)


def bounded_lines(stream: IO[bytes], limit: int = LARGEST_LINE, *, name: str = "") -> Iterator[bytes]:
    """
    Yield the lines of a stream.

    Raises:
        OSError: a line is longer than `limit`.
    """
    while line := stream.readline(limit + 1):
        if len(line) > limit:
            raise _too_large(name)
        yield line


def unzip_bounded(packed: bytes, limit: int) -> bytes:
    """
    Return what gzip has packed.

    Raises:
        OSError: it is not packed by gzip, or is larger than `limit`.
        EOFError: it is not whole.
    """
    with gzip.GzipFile(fileobj=BytesIO(packed)) as file:
        found = file.read(limit + 1)
    if len(found) > limit:
        raise _too_large("")
    return found


def _too_large(name: str) -> OSError:
    return OSError(EFBIG, os.strerror(EFBIG), name)


def _is_regular(stream: IO[bytes]) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, AttributeError):  # a stream of a test has no descriptor
        return False


def write_whole(path: Path, text: str) -> None:
    """
    Write a text file, all or nothing: where that fails, what was there is still there.

    A file that exists keeps its mode; what is no file, such as a pipe, is written to as it is.

    Raises:
        OSError: it cannot be written.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            draft.chmod(stat.S_IMODE(path.stat().st_mode))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def private(path: str, flags: int) -> int:
    """Open a file as the ``opener`` of :func:`open`; one that is created has the mode 0600."""
    return os.open(path, flags, 0o600)


def make_private_folder(path: Path) -> None:
    """Create a folder with the mode 0700, with the folders above it; one that exists stays as it is."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
