"""Tests of core/command_line."""
