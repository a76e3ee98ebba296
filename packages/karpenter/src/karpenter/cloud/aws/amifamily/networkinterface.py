"""
The network interfaces of a launch template.

Subnets are not named here: CreateFleet names one for each zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.api.ec2nodeclass import EFA_ONLY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.cloud.aws.launchtemplate import LaunchTemplate


def network_interfaces(template: LaunchTemplate) -> Iterator[dict[str, Any]]:
    """
    Yield the network interfaces of a launch template.

    Those of the node class, if it names any; else one EFA interface per network card, if pods ask for EFA;
    else the primary interface alone.
    """
    groups = {"Groups": list(template.security_groups)}
    if template.interfaces:
        for each in template.interfaces:
            place = {
                "NetworkCardIndex": each.network_card_index,
                "DeviceIndex": each.device_index,
                "InterfaceType": each.interface_type,
            }
            # An interface of type efa-only has no IP address:
            # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html
            addressed = {} if each.interface_type == EFA_ONLY else _addresses(template)
            yield {**place, **groups, **addressed}
    elif template.efa:
        for card in range(template.efa):
            yield {
                "NetworkCardIndex": card,
                # Only the primary interface has device index 0; other cards start at 1:
                # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html
                "DeviceIndex": 1 if card else 0,
                "InterfaceType": "efa",
                **groups,
                **_addresses(template),
            }
    else:
        yield {"DeviceIndex": 0, **groups, **_addresses(template)}


def _addresses(template: LaunchTemplate) -> dict[str, Any]:
    addresses: dict[str, Any] = {}
    if template.public_address is not None:
        addresses["AssociatePublicIpAddress"] = template.public_address
    if template.prefixes is not None:
        addresses["Ipv6PrefixCount" if template.ipv6 else "Ipv4PrefixCount"] = template.prefixes
    if template.ipv6:
        addresses |= {"PrimaryIpv6": True, "Ipv6AddressCount": 1}
    if template.tracking is not None:
        timeouts = {
            "TcpEstablishedTimeout": template.tracking.tcp_established_timeout,
            "UdpStreamTimeout": template.tracking.udp_stream_timeout,
            "UdpTimeout": template.tracking.udp_timeout,
        }
        addresses["ConnectionTrackingSpecification"] = {
            key: seconds for key, seconds in timeouts.items() if seconds is not None
        }
    return addresses
