"""What `import schedlens` provides: analyses as objects, tables, findings and figures."""
