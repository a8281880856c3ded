"""Tests of core/identity."""
