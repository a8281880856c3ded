"""Tests of integrations/simulator."""
