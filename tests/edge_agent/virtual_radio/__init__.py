"""Tests of edge_agent.virtual_radio."""
