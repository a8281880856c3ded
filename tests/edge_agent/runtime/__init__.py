"""Tests of edge_agent.runtime."""
