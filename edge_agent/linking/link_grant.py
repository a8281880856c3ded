"""Is a grant one that the box can and may use? It comes from a relay that a person named, which may still be wrong."""

from __future__ import annotations

import ipaddress
import ssl

from core.domain.errors import InvalidInputError
from core.domain.ids import is_safe_id
from core.sync.envelope import import_jwk
from core.sync.linking import BrokerAddress, LinkGrant
from edge_agent.linking.relay_client import check_relay_url

KEYS = 8
CREDENTIAL_CHARS = 1_024
HOST_CHARS = 253


def check_grant(grant: LinkGrant) -> None:
    """InvalidInputError for the first thing that is wrong: ids that are no topic levels, no key to obey, no TLS to a
    broker that is not on this machine (the credential would be read on the way, and stops held back)."""
    if not is_safe_id(grant.edge_id):
        raise InvalidInputError.of("edge_id", "cannot be an id")
    if not is_safe_id(grant.account_id):
        raise InvalidInputError.of("account_id", "cannot be an id")
    if not 1 <= len(grant.credential) <= CREDENTIAL_CHARS:
        raise InvalidInputError.of("credential", f"must have 1 to {CREDENTIAL_CHARS} characters")
    if not 1 <= len(grant.relay_keys) <= KEYS:
        raise InvalidInputError.of("relay_keys", f"must be 1 to {KEYS} keys")
    for key in grant.relay_keys:
        import_jwk(key)
    check_relay_url(grant.relay_url)
    _check_broker(grant.broker)


def _check_broker(broker: BrokerAddress) -> None:
    if not 1 <= len(broker.host) <= HOST_CHARS or not 1 <= broker.port <= 65_535:
        raise InvalidInputError.of("broker", "is no address")
    if not broker.tls and not _is_loopback(broker.host):
        raise InvalidInputError.of("broker", "must speak TLS unless it is on this machine")
    if broker.ca_pem is not None:
        try:
            ssl.create_default_context(cadata=broker.ca_pem)
        except (ssl.SSLError, ValueError) as err:
            raise InvalidInputError.of("broker", "its authority is no certificate (PEM)") from err


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
