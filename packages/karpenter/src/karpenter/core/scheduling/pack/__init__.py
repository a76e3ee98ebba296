"""Places pods on nodes and new claims: the scheduler, greedy packing, topology, limits and reservations."""
