"""The figures we promise: workloads, how they are measured, and one command that prints the tables."""
