"""Tests of edge_agent.bluetooth."""
