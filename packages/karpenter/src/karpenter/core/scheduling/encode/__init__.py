"""Turns a problem into arrays: pod classes, offerings, templates, node groups and relaxations."""
