"""Tests of core/settings."""
