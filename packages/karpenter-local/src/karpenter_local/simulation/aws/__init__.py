"""
Simulated runs on the embedded AWS: the provider of production, and everything that AWS does to it.

    :mod:`.faults`   what goes wrong on AWS, as values, and when
    :mod:`.network`  the calls of one operator to AWS, and what goes wrong with them
    :mod:`.cloud`    the embedded AWS: injecting its faults, and what must hold there

Calls are answered in process and in the event loop, where they take virtual time: the same seed gives the
same run, byte for byte, here too.
"""
