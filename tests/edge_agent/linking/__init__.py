"""Tests of the link to the relay."""
