"""
The control interface over HTTP, beside AWS itself, on loopback.

    GET  /_karpenter/instances            every instance
    GET  /_karpenter/console/INSTANCE     what an instance wrote to its console
    GET  /_karpenter/calls                the calls that were made, as CloudTrail tells them; ?changes=1
    POST /_karpenter/commands             a command, such as {"do": "sell-out", "zone": "us-west-2a"}

Only programs on this machine get here. Browsers do not: commands have to be JSON and to say so, which a page
of another site may not do.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from werkzeug.wrappers import Request, Response

from karpenter_local.aws.commands import Command
from karpenter_local.aws.control import Control, Impossible
from karpenter_local.aws.trail import trail

PREFIX: Final = "/_karpenter/"
INSTANCES: Final = f"{PREFIX}instances"
CONSOLE: Final = f"{PREFIX}console/"
CALLS: Final = f"{PREFIX}calls"
COMMANDS: Final = f"{PREFIX}commands"

_JSON: Final = {"Content-Type": "application/json"}


class ControlRoutes:
    """Answers requests to the control interface."""

    def __init__(self) -> None:
        self.control: Control | None = None
        """The control interface that answers; None before :meth:`obey`."""

    def answer(self, request: Request) -> Response:
        if self.control is None:
            return _failed(404, "this AWS has no control interface")
        try:
            if request.path == COMMANDS:
                return self._commanded(self.control, request)
            if request.method != "GET":
                return _failed(405, f"{request.path} can only be read")
            if request.path == INSTANCES:
                return _told(self.control.instances())
            if request.path == CALLS:
                found = trail(self.control.account.calls())
                return _told([each for each in found if each.changed or "changes" not in request.args])
            if request.path.startswith(CONSOLE):
                return _told({"console": self.control.console(request.path.removeprefix(CONSOLE))})
            return _failed(404, f"there is nothing at {request.path}")
        except Impossible as error:
            return _failed(422, str(error))

    @staticmethod
    def _commanded(control: Control, request: Request) -> Response:
        if request.method != "POST" or request.mimetype != "application/json":
            return _failed(415, "a command is sent with POST, as application/json")
        try:
            command = msgspec.json.decode(request.get_data(), type=Command)
        except msgspec.DecodeError as error:
            return _failed(400, f"this is no command: {error}")
        return _told({"done": control.perform(command)})


def _told(value: Any) -> Response:
    return Response(msgspec.json.encode(value), 200, _JSON)


def _failed(status: int, why: str) -> Response:
    return Response(msgspec.json.encode({"error": why}), status, _JSON)
