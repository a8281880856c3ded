"""Tests of integrations.grouw_ble in virtual time."""
