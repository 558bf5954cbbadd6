"""Names, addresses and ports: whether the ranks can find each other."""

from __future__ import annotations

import errno
import socket
import struct
import sys
from collections.abc import Iterator, Mapping

from ddpify.doctor.findings import Finding, note, warning
from ddpify.doctor.rendezvous import check_rendezvous
from ddpify.launching.launch import PORT

AREA = "network"
_SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface


def interfaces() -> dict[str, str]:
    """IPv4 addresses by interface, of those that have one; empty where the system cannot tell."""
    if not sys.platform.startswith("linux"):
        return {}
    found = {}
    for _, name in socket.if_nameindex():
        address = _address(name)
        if address:
            found[name] = address
    return found


def _address(name: str) -> str:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", name.encode()[:15])
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])


def check_network(
    env: Mapping[str, str], known: Mapping[str, str], wait: float
) -> Iterator[Finding]:
    """Findings about names, interfaces and the rendezvous.

    Args:
        env: The environment of this process.
        known: Addresses by interface.
        wait: Seconds that rank 0 may start later than this rank.
    """
    if known:
        yield note(AREA, "interfaces: " + ", ".join(f"{k} {v}" for k, v in known.items()))
    several_nodes = env.get("GROUP_WORLD_SIZE", "1") != "1"
    yield from _host_name(several_nodes)
    outside = [name for name in known if not known[name].startswith("127.")]
    chosen = env.get("NCCL_SOCKET_IFNAME") or env.get("GLOO_SOCKET_IFNAME")
    if several_nodes and len(outside) > 1 and not chosen:
        remedy = "export NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME with the one between the nodes"
        yield warning(AREA, f"several interfaces: {', '.join(outside)}", remedy)
    port = env.get("MASTER_PORT", "")
    if env.get("MASTER_ADDR") and port.isdecimal() and 0 < int(port) < 65536:
        yield from check_rendezvous(env, wait)
    else:
        yield from _port()


def _host_name(several_nodes: bool) -> Iterator[Finding]:
    name = socket.gethostname()
    remedy = "add it to /etc/hosts, or give torchrun --local-addr with this node's address"
    try:
        address = socket.gethostbyname(name)
    except OSError:
        yield warning(AREA, f"this machine's name, {name}, has no address", remedy)
        return
    if several_nodes and address.startswith("127."):
        message = f"this machine's name, {name}, stands for {address}: other nodes see themselves"
        yield warning(AREA, message, remedy)


def _port() -> Iterator[Finding]:
    """Whether torchrun's usual port is free on this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", PORT))
        except OSError as failure:
            if failure.errno != errno.EADDRINUSE:
                raise
            remedy = "use torchrun --standalone on one node, or --master-port with another one"
            yield warning(AREA, f"port {PORT}, torchrun's usual one, is in use", remedy)
