"""Tests of core/platform."""
