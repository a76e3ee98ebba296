"""
Interruptions: instances that AWS will take away, stop or retire, or that fail their status checks.

:mod:`.messages` reads the messages of the interruption queue, :mod:`.controller` turns them into
interruptions of NodeClaims, and :mod:`.instancestatus` asks EC2 for the status of instances.
"""
