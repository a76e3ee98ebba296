"""From a cluster view to a problem: which pods, nodes, pools and daemons the solver is asked about."""
