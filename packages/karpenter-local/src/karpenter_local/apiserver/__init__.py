"""Apiserver."""
