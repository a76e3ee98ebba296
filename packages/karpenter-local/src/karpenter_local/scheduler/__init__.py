"""
The embedded scheduler: which node each pending pod gets, and why it gets none.

Read in this order: :mod:`.demand` and :mod:`.supply` (what pods ask and nodes offer, as values),
:mod:`.table` (the cluster as arrays, kept up to date one event at a time), the filters and scores
(:mod:`.static`, :mod:`.room`, :mod:`.spread`, :mod:`.affinity`, :mod:`.volumes`, :mod:`.score`),
:mod:`.place` (one pod's decision), :mod:`.preempt` (whom to evict for it), :mod:`.queue` (whose turn it is),
and :mod:`.loop`, the only file that talks to the API server.
"""
