"""The solver: from pending pods to NodeClaims, ``solve(problem) -> Plan``."""
