"""
The flight record: what the operator saw, decided and did, so that every decision can be made again.

A record is lines of JSON (:mod:`.record`). It holds changes, not states, and a decision by what it was
asked with beside the state; read from its beginning, it gives the state at every point. :mod:`.recorder`
writes it, and :mod:`.replay` makes the decisions again with the same pure functions and compares. The
operator never reads it.
"""
