"""
A cluster's life under the virtual clock: the same seed lives the same life, byte for byte.

    seed -> script -> world -> outcome
            (what is asked for,  (embedded cluster,     (what was violated,
             what goes wrong,     cloud in memory,       how it came to that,
             and when)            one or two operators)  and a digest of every write)

A :mod:`.script` is a value: everything that will be asked for and everything that will go wrong, with the
times. The :mod:`.world` is the real operator between the embedded cluster and the cloud in memory. Rules
(:mod:`.rules`) look at every write as it happens and at the whole when it has come to rest. A script that
ends in a violation is cut down (:mod:`.shrink`) until nothing can be left out, and told (:mod:`.story`).
"""
