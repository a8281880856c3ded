"""Tests of integrations.husqvarna_ble in virtual time."""
