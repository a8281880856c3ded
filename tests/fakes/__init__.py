"""Fakes at the ports, shared by all tests."""
