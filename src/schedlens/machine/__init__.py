"""The machine: topology, core types, CPU lists, settings, cgroups."""
