"""
What can be bought on EC2.

:mod:`.sold` is what EC2 says about instance types, :mod:`.prices` what they cost; :mod:`.shop` keeps both
current. :mod:`.traits` is what a node class has to do with it, :mod:`.amounts` and :mod:`.building` what
follows, :mod:`.unavailable` what failed lately, and :mod:`.catalogs` puts it together, anew only where
something has changed.
"""
