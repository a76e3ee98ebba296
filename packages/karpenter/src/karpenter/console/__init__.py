"""
The web page of the cluster: the map, the decisions over time, what-if, and the money.

    :mod:`.state`   the document that the page draws, as values: a cluster at one moment, and changes
    :mod:`.record`  the same of a flight record, moment by moment
    :mod:`.whatif`  the difference that another NodePool makes, and what a NodePool may buy
    :mod:`.live`    follows a cluster by its watches
    :mod:`.server`  serves the page on loopback
    :mod:`.page`    the page as one file
"""
