"""
How hard the laws are tried.

``pytest tests/property --hypothesis-profile=thorough`` tries each with thousands of examples.
"""

from hypothesis import settings

settings.register_profile("thorough", max_examples=2500, deadline=None, print_blob=True)
