"""The lifecycle of NodeClaims, Nodes and NodePools: from launch to termination, and their conditions."""
