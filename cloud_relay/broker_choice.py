"""Which broker the settings ask for."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from cloud_relay.broker.external import ExternalMosquitto
from cloud_relay.broker.port import Broker
from cloud_relay.broker.supervised import SupervisedMosquitto
from cloud_relay.settings import RelaySettings
from core.domain.clock import Clock
from core.domain.errors import SettingsError
from core.mqtt.session import BrokerAddress, Credential
from core.sync import linking


def make_broker(settings: RelaySettings, *, relay_url: str, clock: Clock) -> Broker:
    """The broker, not running yet. Boxes are told the host of `relay_url` unless a setting names another.
    SettingsError when a file cannot be read."""
    ca_pem = None if settings.broker_ca is None else _read(settings.broker_ca)
    if settings.broker == "embedded":
        return SupervisedMosquitto(
            directory=settings.data_dir / "broker",
            host=settings.broker_host,
            port=settings.broker_port,
            clock=clock,
            binary=settings.broker_binary,
            certificate=settings.broker_tls_cert,
            key=settings.broker_tls_key,
            ca_pem=ca_pem,
            advertised_host=settings.broker_advertised_host or urlsplit(relay_url).hostname,
            advertised_port=settings.broker_advertised_port or None,
        )
    return ExternalMosquitto(
        address=BrokerAddress(
            host=settings.broker_host, port=settings.broker_port, tls=settings.broker_tls, ca_pem=ca_pem
        ),
        credential=Credential(username=settings.broker_username or "", password=settings.broker_password or ""),
        advertised=linking.BrokerAddress(
            host=settings.broker_advertised_host or settings.broker_host,
            port=settings.broker_advertised_port or settings.broker_port,
            tls=settings.broker_tls,
            ca_pem=ca_pem,
        ),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise SettingsError.of("MOWDECK_RELAY_BROKER_CA", f"cannot be read: {err}") from err
