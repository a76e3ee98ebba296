"""Whether the embedded AWS can run here: the libraries that imitate AWS and speak to it are optional."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

EXTRA: Final = "aws"
"""The extra of ``karpenter-local`` that brings them."""

LIBRARIES: Final = ("boto3", "moto", "flask", "flask_cors")


class NotInstalled(RuntimeError):  # noqa: N818  says what is wrong
    """A library that the embedded AWS needs is not installed."""

    hint = "pip install boto3 flask flask-cors 'moto[ec2,eks,iam,sqs,ssm]>=5.2,<5.3'"

    def __init__(self, missing: tuple[str, ...]) -> None:
        super().__init__(f"the embedded AWS needs what is not installed here: {', '.join(missing)}")
        self.missing = missing


def check_needs() -> None:
    """
    Refuse to go on where something is missing.

    Raises:
        NotInstalled: naming it.
    """
    missing = tuple(name for name in LIBRARIES if find_spec(name) is None)
    if missing:
        raise NotInstalled(missing)
