"""The running operator: its settings, its wiring, its life."""
