"""
The testing kit: builders, strategies, the oracle, the validator and the contract suite of providers.

Builders spell out clusters in few words, strategies invent them, the validator re-checks
plans from scratch, and the oracle solves slowly what the solver solves fast.
"""
