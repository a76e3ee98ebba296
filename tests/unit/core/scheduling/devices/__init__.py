"""Devices that pods claim."""
