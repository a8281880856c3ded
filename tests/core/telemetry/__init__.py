"""Tests of core/telemetry."""
