"""Devices that pods claim: which there are, which are free, and which a pod would get on which machine."""
