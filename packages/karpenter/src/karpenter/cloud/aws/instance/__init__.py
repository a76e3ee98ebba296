"""
Launching machines.

:mod:`.narrowing` picks what would do for a claim, :mod:`.templating` says how such machines are made,
:mod:`.templates` keeps launch templates in EC2, :mod:`.fleets` asks for machines, :mod:`.outcomes` reads what
came of it, and :mod:`.launcher` does one after the other. :mod:`.tickets` and :mod:`.ledger` see to it that a
claim never gets two machines.
"""
