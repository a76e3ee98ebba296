"""Tests of core.lifecycle."""
