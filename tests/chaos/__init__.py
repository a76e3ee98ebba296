"""The operator as processes under faults, on the embedded and on the real control plane: ``make chaos``."""
