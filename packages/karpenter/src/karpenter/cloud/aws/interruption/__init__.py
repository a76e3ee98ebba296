"""
News of machines that AWS takes away, or that are broken.

:mod:`.messages` reads what comes through the queue, :mod:`.queue` gets it from there, :mod:`.health` asks EC2
which machines are unwell. What follows is decided in the core: the claim goes, and its pods move in time.
"""
