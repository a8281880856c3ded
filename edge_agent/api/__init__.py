"""The box's own routes: itself, its link, its integrations."""
