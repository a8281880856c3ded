"""Tests of the Ardumower integration."""
