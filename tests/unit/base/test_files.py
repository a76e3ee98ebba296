"""Files that only their owner may read."""

from pathlib import Path

from karpenter.base.files import make_private_folder, private


def test_what_is_created_is_for_its_owner_only(tmp_path: Path) -> None:
    """A file has the mode 0600 and its folder 0700, whatever the umask allows."""
    folder = tmp_path / "above" / "folder"
    make_private_folder(folder)
    make_private_folder(folder)
    file = folder / "file"
    with open(file, "wb", opener=private) as opened:
        opened.write(b"x")

    assert (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
