"""Tests of the benches' parts that others build on."""
