"""
Field ownership: ``metadata.managedFields`` and server-side apply.

See https://kubernetes.io/docs/reference/using-api/server-side-apply/

:mod:`.sets` sets of field paths; :mod:`.shapes` what merges with what; :mod:`.compare`, :mod:`.merge` and
:mod:`.prune` walk objects by shape; :mod:`.entries` the list in metadata; :mod:`.owners` the rules of
update and apply.
"""
