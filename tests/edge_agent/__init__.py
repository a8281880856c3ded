"""Tests of edge_agent."""
