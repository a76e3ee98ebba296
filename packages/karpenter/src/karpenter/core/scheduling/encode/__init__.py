"""Encode."""
