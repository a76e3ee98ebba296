"""Logs, metrics and traces of the operator."""
