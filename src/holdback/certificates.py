"""Certificates for one run: an authority in memory, and what it issues.

Authorities have RSA keys, because Kueue's certificate rotator reads no others; all other keys are EC P-256, which
are made much faster. Everything is valid from an hour ago (clocks differ) for a year. No run lasts that long, but
Kueue replaces certificates that would expire within 90 days.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority", "Leaf", "new_key_pem", "write_private"]

_BEFORE = timedelta(hours=1)
_AFTER = timedelta(days=365)

_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def write_private(path: Path, text: str) -> Path:
    """Write a file that only we may read (0600), from its first byte on; one that is there is replaced."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return path


def new_key_pem() -> str:
    """A fresh private key, for instance to sign service account tokens with."""
    return _key_pem(ec.generate_private_key(ec.SECP256R1()))


@dataclass(frozen=True, slots=True)
class Leaf:
    """A certificate and its key, both PEM."""

    pem: str
    key_pem: str = field(repr=False)

    def write(self, directory: Path, stem: str) -> tuple[Path, Path]:
        """Write `STEM.crt` and `STEM.key`, both 0600; their paths."""
        return (
            write_private(directory / f"{stem}.crt", self.pem),
            write_private(directory / f"{stem}.key", self.key_pem),
        )


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority; `pem` is what clients must trust."""

    pem: str
    key_pem: str = field(repr=False)

    @classmethod
    def create(cls, name: str, dns: Sequence[str] = ()) -> Authority:
        """Make one.

        Args:
            name: its common name.
            dns: names for the authority's own certificate (Kueue's certificate rotator wants `kueue-ca`).
        """
        key = rsa.generate_private_key(65537, 2048)
        builder = _builder(name, issuer=name, key=key, authority=key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        if dns:
            builder = builder.add_extension(_alternatives(dns, ()), critical=False)
        return cls(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))

    def issue(self, name: str, *, dns: Sequence[str] = (), ips: Sequence[str] = ("127.0.0.1",)) -> Leaf:
        """Issue a certificate for a server or client.

        Args:
            name: its common name.
            dns: names under which it may be reached.
            ips: addresses under which it may be reached.
        """
        authority = serialization.load_pem_private_key(self.key_pem.encode(), password=None)
        assert isinstance(authority, rsa.RSAPrivateKey)
        issuer = x509.load_pem_x509_certificate(self.pem.encode()).subject
        issuer_name = str(issuer.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(name, issuer=issuer_name, key=key, authority=authority)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        if dns or ips:
            builder = builder.add_extension(_alternatives(dns, ips), critical=False)
        return Leaf(_pem(builder.sign(authority, hashes.SHA256())), _key_pem(key))


def _builder(name: str, *, issuer: str, key: _Key, authority: _Key) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _AFTER)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(dns: Sequence[str], ips: Sequence[str]) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns]
    return x509.SubjectAlternativeName(names + [x509.IPAddress(ip_address(ip)) for ip in ips])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: _Key) -> str:
    # SEC 1 and PKCS 1: kube-apiserver's reader of service account keys and Kueue's rotator know these forms.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()
