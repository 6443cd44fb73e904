"""Recording: the plan, the collection loop, the session folder, changes to the machine."""
