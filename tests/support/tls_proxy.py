"""TLS in front of a server that has none: an own authority, clients must show a certificate, and which are taken can change."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOOPBACK = "127.0.0.1"


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption_algorithm=serialization.NoEncryption()
    )


@dataclass
class Authority:
    """A certificate authority of a test's own. ``pem``: its certificate."""

    name: str
    _key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()), repr=False)

    def __post_init__(self) -> None:
        certificate = self._builder(_name(self.name), self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.pem = certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """A certificate for loopback, and its key; PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(LOOPBACK)), x509.DNSName("localhost")])
        certificate = self._builder(_name(name), key).add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(_name(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
        )


class TlsProxy:
    """``address``: where it listens. ``accepted``: connections of clients whose certificate was taken, so far."""

    def __init__(self, target: str, folder: Path, server: Authority) -> None:
        self._target = target
        self._folder = folder
        self._certificate = folder / "server.pem"
        self._certificate.write_bytes(b"".join(server.issue("server")))
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.address = ""
        self.accepted = 0

    async def listen(self, clients: Authority) -> None:
        """Only clients of this authority from now on; who is connected is cut off. The address stays."""
        port = int(self.address.rpartition(":")[2] or 0)
        await self.aclose()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.pem.decode())
        context.set_alpn_protocols(["h2"])
        self._server = await asyncio.start_server(self._serve, LOOPBACK, port, ssl=context)
        self.address = f"{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        host, _, port = self._target.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        ends = {writer, far_writer}
        self._writers |= ends
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            self._writers -= ends


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def tls_proxy(target: str, folder: Path, *, server: Authority, clients: Authority) -> AsyncGenerator[TlsProxy]:
    """``target``: host:port of the server in plain text."""
    proxy = TlsProxy(target, folder, server)
    await proxy.listen(clients)
    try:
        yield proxy
    finally:
        await proxy.aclose()
