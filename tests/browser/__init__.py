"""Tests in a real browser, on the real clock."""
