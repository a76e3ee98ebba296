"""
What must never happen in a simulated run, judged from the outside.

An invariant sees what the API server and the cloud saw: requests, objects, instances. It imports nothing of
``karpenter.core`` and asks the operator nothing: budgets, PodDisruptionBudgets, limits, taints, prices and
requests are computed anew, by slow and obvious code.

    :mod:`.invariant`   what an invariant is, and how objects are read
    :mod:`.history`     since when facts hold, and which replica could know them
    :mod:`.machines`    machines, NodeClaims and nodes: who owns whom, and in which order they come and go
    :mod:`.draining`    how nodes are emptied, and when machines end
    :mod:`.disruption`  whether a disruption may begin, and what must stay
    :mod:`.commands`    what a command replaces, and what it costs
    :mod:`.workloads`   pods, buffers, overlays, and how many writes there are, and whose
"""
