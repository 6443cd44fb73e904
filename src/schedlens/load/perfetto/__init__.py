"""Reads Perfetto traces and ftrace texts through trace_processor."""
