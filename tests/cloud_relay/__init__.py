"""Tests of cloud_relay."""
