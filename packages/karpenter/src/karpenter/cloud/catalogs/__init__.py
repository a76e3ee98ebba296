"""
The catalogues that ship with the product, and the format of a user's own.

:mod:`.load` finds a catalogue by name or file. :mod:`.kwok` makes the 144 types of the cloud in memory,
:mod:`.ec2` has the instance types of EC2. :mod:`.kwok_format` reads and writes the JSON
that users edit.
"""
