"""
What tests of ours, and of whoever builds on us, are made with.

Builders spell out clusters in few words, strategies invent them, the validator re-checks
plans from scratch, and the oracle solves slowly what the solver solves fast.
"""
