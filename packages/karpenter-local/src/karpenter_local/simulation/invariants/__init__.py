"""
What must always hold in a simulated run, and what must hold once it has settled.

    :mod:`.invariant`   what an invariant is, and the log of violations
    :mod:`.machines`    machines, NodeClaims, nodes, limits and sizes of NodePools
    :mod:`.disruption`  budgets, protected pods, replacements
    :mod:`.workloads`   pods, buffers, overlays, and how often the operator writes
"""
