"""Writing the status of a plain object, only if it differs from what is there."""

from karpenter.kube.targets import Plain, Untyped
from karpenter_local.controllers import plain
from karpenter_local.controllers.writer import Writer


async def write_status(writer: Writer, target: Untyped, owner: Plain, new: Plain) -> None:
    """Let the owner's status be `new`, whole: what it had besides is removed."""
    old = plain.status_of(owner)
    if old == new:
        return
    gone = {key: None for key in old if key not in new}
    await writer.set_status(
        target, plain.name_of(owner), {**new, **gone}, namespace=plain.namespace_of(owner)
    )
