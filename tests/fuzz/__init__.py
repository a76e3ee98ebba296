"""Hostile and broken text, for everything that reads text from outside."""
