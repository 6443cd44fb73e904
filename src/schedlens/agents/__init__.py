"""Tools for agents over the Model Context Protocol: read-only, bounded, restricted to folders."""
