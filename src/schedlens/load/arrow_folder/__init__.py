"""A folder of base tables as Arrow files."""
