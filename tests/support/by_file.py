"""How xdist distributes the tests: by file, and all that record to one worker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling


class Scheduling(LoadFileScheduling):
    """Each file on one worker; `records` says of the name of a test whether its file records."""

    def __init__(
        self, config: pytest.Config, log: Producer, records: Callable[[str], bool]
    ) -> None:
        # In the order of the tests, rather than the files with the most tests first.
        config.option.loadscopereorder = False
        super().__init__(config, log)
        self._records = records

    def _split_scope(self, nodeid: str) -> str:
        return "records" if self._records(nodeid) else str(super()._split_scope(nodeid))
