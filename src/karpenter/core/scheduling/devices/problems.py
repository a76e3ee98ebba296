"""The one error that reading claims, classes and slices can end in."""

from __future__ import annotations


class BadDevices(ValueError):  # noqa: N818  reads as what it is: devices that nobody can allocate
    """Something about devices that cannot be read or is not understood; the text is one sentence."""
