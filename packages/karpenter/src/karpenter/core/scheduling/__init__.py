"""From pods that wait to machines that should run: ``solve(problem) -> Plan``."""
