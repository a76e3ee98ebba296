"""
The one error that reading an API object can end in.

Whoever reads a manifest, an answer of an API server or a plain dictionary catches
:class:`InvalidObject` and nothing else; its text is one sentence, its parts are attributes.
"""


class InvalidObject(ValueError):  # noqa: N818  reads as what it is: an object that is not valid
    """An object that cannot be read, with the place and what is allowed there."""

    def __init__(self, *, subject: str, field: str = "", problem: str) -> None:
        place = f"{subject}: {field}" if field else subject
        super().__init__(f"{place}: {problem}")
        self.subject = subject
        """What was being read, such as ``NodePool/default``."""
        self.field = field
        """Where it is wrong, such as ``spec.weight``; empty when all of it is."""
        self.problem = problem
        """What is wrong and what is allowed."""
