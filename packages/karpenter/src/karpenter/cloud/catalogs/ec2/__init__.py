"""
EC2 as a catalogue.

:mod:`.data` has what EC2 describes about instance types, as it ships with the product or as the API returns
it. :mod:`.instancetypes` derives labels, resources, prices and the catalogue of a region from it, and
:mod:`.refresh` asks AWS for a current one.
"""
