"""Tests of core/storage."""
