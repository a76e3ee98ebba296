"""
The embedded AWS above a made-up cluster: the provider of production, and everything that AWS does to it.

    :mod:`.mishaps`     what goes wrong on AWS, as values
    :mod:`.misfortune`  how much of it, and when
    :mod:`.weather`     what goes wrong with calls at the moment
    :mod:`.line`        one operator's line to AWS
    :mod:`.sky`         the embedded AWS, its machines, and letting mishaps happen

Calls are answered in process and in the event loop, where they take virtual time: the same seed lives the
same life here, too.
"""
