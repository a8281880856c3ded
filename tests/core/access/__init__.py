"""Tests of core/access."""
