"""
The oracle: a slow second implementation of the solver, one pod at a time, in plain loops, with no caches.

Pods are taken in the order of their size. Each is tried on every node there is, then on
every claim of this run, the emptiest first, then on a new claim of every pool in turn; the
first that takes it gets it. A pod that nothing takes gives up one preference and tries
again, and in the end goes to the back of the queue, until a whole round brings nothing.
Whatever can be worked out from what has been placed is worked out anew each time.

Where the contract leaves an answer to chance, or has one that is known to be wrong, the
oracle says what we mean instead:

- a pool's limits count the machines of this run, each as what it would be bought as, and
  not as the largest that it could become;
- among domains that a spread allows, one is chosen in which a machine can be had, the
  emptiest first, then the cheapest, then by name;
- a pod counts for spread and affinity as soon as the domain of its claim is settled;
- several constraints on one label are met together, not one after the other;
- pods that wait for reserved capacity which is used up get other machines in the end,
  after every other pod, as they would one round later;
- a pod that asks for two values of one label at once is refused, also where no node has
  that label;
- claims with equally many pods are tried in the order in which they were opened.

Shares nothing with the solver but the values of a problem and the algebra of labels,
resources and taints, so that a mistake in one shows in the other.
"""

from karpenter_local.testing.oracle.search import OraclePlan, slow_solve

__all__ = ["OraclePlan", "slow_solve"]
