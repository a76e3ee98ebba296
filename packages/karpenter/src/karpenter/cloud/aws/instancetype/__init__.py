"""
Instance types of EC2.

:mod:`.instancetype` keeps what EC2 describes and makes catalogues of it, :mod:`.types` computes capacity and
overhead of nodes, :mod:`.offering` requirements and offerings, :mod:`.compatibility` which types a node class
excludes. :mod:`.capacity` keeps the memory that nodes have reported, and :mod:`.metrics` shows instance types
as metrics.
"""
