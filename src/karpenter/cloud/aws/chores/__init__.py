"""
What the provider does for a cluster while the operator leads, one module for each sort of duty.

:mod:`.node_classes` works out what classes say, :mod:`.hashes` what their machines are compared with,
:mod:`.claims` what is written on claims and instances, :mod:`.collecting` takes away what nobody needs,
:mod:`.reservations` follows capacity reservations, :mod:`.refreshing` keeps current what was learned, and
:mod:`.showing` tells Prometheus what there is to buy. :mod:`.every` lists them all.

Nothing here writes to Kubernetes: effects are returned, and the operator carries them out.
"""
