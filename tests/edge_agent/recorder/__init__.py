"""Tests of edge_agent.recorder."""
