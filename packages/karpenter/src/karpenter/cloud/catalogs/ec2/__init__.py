"""
EC2 as a catalogue: facts about instance types, and what follows from them.

:mod:`.facts` is what EC2 says about a type, :mod:`.records` reads it from the answers
of the API, :mod:`.data` from the file that ships with the product. :mod:`.labels`,
:mod:`.resources` and :mod:`.prices` derive the rest, :mod:`.catalog` puts it together,
and :mod:`.refresh` asks AWS anew.
"""
