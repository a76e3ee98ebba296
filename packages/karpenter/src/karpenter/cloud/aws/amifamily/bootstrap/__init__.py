"""
What machines are told when they start.

:mod:`.bootstrap` is what has to be said whatever the image; a module for each family says it in the words
that its images understand, and merges it with what the user has to say. :mod:`.rendering` picks the family.
"""
