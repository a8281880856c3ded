"""Tests of edge_agent.clock."""
