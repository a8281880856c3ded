"""Tests of edge_agent.bluez."""
