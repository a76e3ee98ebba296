"""The values that decisions are made of: requirements, resources, taints, ports, selectors, the catalog."""
