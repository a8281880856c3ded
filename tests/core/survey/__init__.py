"""Tests of core/survey."""
