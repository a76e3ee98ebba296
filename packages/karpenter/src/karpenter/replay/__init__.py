"""
The flight recorder: what was seen, decided and done, so that every decision can be made again.

A record is lines of JSON (:mod:`.lines`). It tells what was seen as it changed, not as it stood, and a
decision by what it was asked beside that; whoever reads it from its beginning has the state at every point.
:mod:`.recording` writes it, :mod:`.replaying` makes the decisions again with the same pure functions and
compares. No part of a record is read by the operator.
"""
