"""Tests of core/sync."""
