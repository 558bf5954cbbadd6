"""MASTER_ADDR and MASTER_PORT: whether this process can reach the store that all ranks meet at."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import secrets
import socket
import time
from collections.abc import Iterator, Mapping

from ddpify.doctor.findings import Finding, error, note

AREA = "network"
CONNECT_SECONDS = 5.0
"""How long one attempt to connect may take: a firewall that drops packets answers nothing."""
_PAUSE = 0.2


def agent_hosts_store(env: Mapping[str, str]) -> bool:
    """Whether torchrun's agent serves the store already, and not rank 0 once it starts."""
    return env.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def check_rendezvous(env: Mapping[str, str], wait: float) -> Iterator[Finding]:
    """At most one finding. ``wait``: seconds that rank 0 may start later, where it hosts."""
    host, port = env["MASTER_ADDR"], int(env["MASTER_PORT"])
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        remedy = "set MASTER_ADDR to an address, or to a name that every node can look up"
        yield error(AREA, f"MASTER_ADDR={host}: this machine knows no such host", remedy)
        return
    if _several_nodes(env) and _is_loopback(host):
        message = f"MASTER_ADDR={host} is each node itself: several cannot meet there"
        remedy = "set MASTER_ADDR to the first node's address in the network between the nodes"
        yield error(AREA, message, remedy)
        return
    if env.get("RANK") == "0" and not agent_hosts_store(env):
        yield from _as_host(host, port)
    else:
        patience = 0.0 if agent_hosts_store(env) else wait
        yield from _as_client(host, port, patience)


def _several_nodes(env: Mapping[str, str]) -> bool:
    size = env.get("WORLD_SIZE")
    here = env.get("LOCAL_WORLD_SIZE") or size
    return env.get("GROUP_WORLD_SIZE", "1") != "1" or size != here


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _as_host(host: str, port: int) -> Iterator[Finding]:
    """Rank 0 will listen here: whether the port is free, and whether the address leads here."""
    try:
        listener = _listener(port)
    except OSError as failure:
        yield _cannot_listen(port, failure)
        return
    with listener:
        if _reaches_itself(listener, host, port):
            yield note(AREA, f"rank 0 hosts the store at {host}:{port}")
            return
    message = f"rank 0 hosts the store, but MASTER_ADDR={host} does not lead to its machine"
    remedy = "set MASTER_ADDR to an address of the machine that rank 0 runs on"
    yield error(AREA, message, remedy)


def _listener(port: int) -> socket.socket:
    """As PyTorch's store listens: for IPv6 and IPv4 where the machine has both."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _cannot_listen(port: int, failure: OSError) -> Finding:
    if failure.errno == errno.EADDRINUSE:
        message = f"rank 0 cannot host the store: port {port} is in use by another program"
        return error(AREA, message, "set MASTER_PORT to a free port, the same for all ranks")
    message = f"rank 0 cannot host the store at port {port}: {failure.strerror}"
    return error(AREA, message, "set MASTER_PORT to a port from 1024 to 65535")


def _reaches_itself(listener: socket.socket, host: str, port: int) -> bool:
    """Whether what connects to the address arrives at this listener."""
    token = secrets.token_bytes(16)
    try:
        client = socket.create_connection((host, port), timeout=CONNECT_SECONDS)
    except OSError:
        return False
    with client:
        client.sendall(token)
        end = time.monotonic() + CONNECT_SECONDS
        while (left := end - time.monotonic()) > 0:
            listener.settimeout(left)
            try:
                server, _ = listener.accept()
            except OSError:
                return False
            with server:  # other ranks may have connected first; they send nothing
                server.settimeout(_PAUSE)
                if _received(server, len(token)) == token:
                    return True
    return False


def _received(server: socket.socket, count: int) -> bytes:
    try:
        return server.recv(count)
    except OSError:
        return b""


def _as_client(host: str, port: int, patience: float) -> Iterator[Finding]:
    end = time.monotonic() + patience
    while True:
        try:
            socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
        except ConnectionRefusedError as failure:
            # Only this may pass: the machine is there, and rank 0 has not started yet.
            if time.monotonic() < end:
                time.sleep(_PAUSE)
                continue
            yield _cannot_connect(host, port, failure, patience)
        except OSError as failure:
            yield _cannot_connect(host, port, failure, patience)
        else:
            yield note(AREA, f"{host}:{port}, the master's address and port, can be reached")
        return


def _cannot_connect(host: str, port: int, failure: OSError, patience: float) -> Finding:
    place = f"MASTER_ADDR:MASTER_PORT {host}:{port}"
    if isinstance(failure, ConnectionRefusedError):
        waited = f" after {patience:g} s" if patience else ""
        remedy = "start rank 0, or the first node's torchrun, and give all ranks the same port"
        return error(AREA, f"nothing listens at {place}{waited}", remedy)
    if isinstance(failure, TimeoutError):
        message = f"{place} does not answer within {CONNECT_SECONDS:g} s"
        return error(AREA, message, "open the port in the firewalls between this node and that one")
    if failure.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
        remedy = "use the first node's address in a network that this node is in, too"
        return error(AREA, f"there is no route from this machine to {place}", remedy)
    return error(AREA, f"{place} cannot be reached: {failure}", "check the network to that node")
