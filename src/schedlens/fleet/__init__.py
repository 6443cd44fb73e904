"""Many recordings at once: on all CPUs of this machine, or on a Dask cluster."""
