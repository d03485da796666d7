"""What we issue, TLS believes."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from holdback.certificates import Authority, new_key_pem, write_private


def _handshake(authority: Authority, directory: Path, server_name: str, trusted: Authority) -> str | None:
    """A real handshake as a client that trusts `trusted`; the version of TLS."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf = authority.issue("server", dns=["server.test"])
    server_side.load_cert_chain(*leaf.write(directory, "server"))
    client_side = ssl.create_default_context(cadata=trusted.pem)
    client_side.verify_flags |= ssl.VERIFY_X509_STRICT  # Python 3.13 and later check that by themselves
    left, right = socket.socketpair()

    def serve() -> None:
        try:
            server_side.wrap_socket(left, server_side=True).close()
        except (ssl.SSLError, OSError):
            left.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client_side.wrap_socket(right, server_hostname=server_name) as connection:
            return connection.version()
    finally:
        right.close()
        thread.join(10)


@pytest.mark.parametrize("name", ["127.0.0.1", "server.test"])
def test_a_client_that_trusts_the_authority_connects(tmp_path: Path, name: str) -> None:
    """A leaf is accepted under its address and under its name."""
    authority = Authority.create("test")
    assert _handshake(authority, tmp_path, name, authority) == "TLSv1.3"


def test_other_names_and_other_authorities_are_refused(tmp_path: Path) -> None:
    """A leaf is refused under another name, and by who trusts another authority of the same name."""
    authority = Authority.create("test")
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(authority, tmp_path, "other.test", authority)
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(authority, tmp_path, "127.0.0.1", Authority.create("test"))


def test_an_authority_carries_names(tmp_path: Path) -> None:
    """The names asked for stand in the authority's own certificate, which may sign others."""
    certificate = x509.load_pem_x509_certificate(Authority.create("ca", dns=["kueue-ca"]).pem.encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["kueue-ca"]
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_validity() -> None:
    """Certificates are valid an hour ago already, and for longer than the 90 days that Kueue looks ahead."""
    authority = Authority.create("ca")
    for pem in (authority.pem, authority.issue("leaf").pem):
        certificate = x509.load_pem_x509_certificate(pem.encode())
        assert certificate.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=59)
        assert certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=91)


def test_secrets_are_private(tmp_path: Path) -> None:
    """Keys are in files that we alone may read, even where a readable file was before, and not in reprs."""
    (tmp_path / "x.key").write_text("old")
    authority = Authority.create("ca")
    leaf = authority.issue("leaf")
    certificate, key = leaf.write(tmp_path, "x")
    for path in (certificate, key, write_private(tmp_path / "other", new_key_pem())):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text().startswith("-----BEGIN")
    assert "PRIVATE" not in repr(leaf) + repr(authority)
    serialization.load_pem_private_key(key.read_bytes(), password=None)
