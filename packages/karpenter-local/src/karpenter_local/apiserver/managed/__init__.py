"""
Who owns which field: ``metadata.managedFields``, and server-side apply, which is built on it.

:mod:`.sets` sets of field paths; :mod:`.shapes` what merges with what; :mod:`.compare`, :mod:`.merge` and
:mod:`.prune` walk objects by shape; :mod:`.entries` the list in metadata; :mod:`.owners` the rules of
update and apply.
"""
