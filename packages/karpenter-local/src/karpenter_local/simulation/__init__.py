"""
Simulated runs of a cluster under the virtual clock: the same seed gives the same run, byte for byte.

    seed -> scenario -> simulated cluster -> result
            (what users do,  (a sandbox: embedded    (what was violated,
             what goes        cluster, cloud, one     how it came to that,
             wrong, and when) or two operators)       and a digest of every write)

A :mod:`.scenario` is a value: the actions of users (:mod:`.workload`) and faults (:mod:`.fault_schedule`),
with their times. :mod:`.run` applies and injects them into the :mod:`.cluster`. The :mod:`.invariants` look
at every write as it happens and at the whole when it has settled. A scenario that ends in a violation is
shrunk (:mod:`.shrink`) until nothing can be left out, and reported with a :mod:`.timeline` (:mod:`.report`).
"""
