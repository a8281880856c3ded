"""Tests of the household on the box."""
