"""Tests of core/mqtt."""
