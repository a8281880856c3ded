"""The boxes: how they are linked, who they are, how they are doing."""
