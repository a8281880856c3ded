"""Tests of core/web."""
