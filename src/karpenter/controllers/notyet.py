"""What is not a fault but an answer: not yet, ask again, more and more slowly."""


class NotYet(Exception):  # noqa: N818  an answer, not a fault
    """Something cannot be done now and is to be tried again."""
