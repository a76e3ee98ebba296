"""
Machine images: from an alias or a selector to the image of each instance type.

:mod:`.aliases` knows where AWS publishes its images, :mod:`.parameters` reads them there, :mod:`.finding`
puts them together, and :mod:`.choosing` picks the one for an instance type.
"""
