"""Tests of edge_agent.uplink."""
