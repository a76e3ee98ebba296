"""
The workload controllers of the embedded cluster: what makes pods, keeps count of them, and clears up after
them.

Each module holds one noun: pure functions that say what should change, and a small :class:`.loop.Controller`
that looks, asks, and writes. :mod:`.informers` is what they all see, :mod:`.writer` how they all write,
:mod:`.suite` lists them.
"""
