"""The tools, one per file: `Arguments`, and `answer(access, given)`; the docstring describes it."""
