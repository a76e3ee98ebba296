"""
The embedded API server: the Kubernetes API over an in-memory store, with or without sockets.

:mod:`.server` handles one request, :mod:`.http` serves it over TLS, :mod:`.inprocess` calls it as a
function. A request is parsed (:mod:`.request`), authorized, and answered by one of the :mod:`.verbs`.
Writes run through admission, the registry strategy of the kind, validation and server-side apply
(:mod:`.writing`) into the store and its watch cache.
"""
