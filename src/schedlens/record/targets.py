"""The systems to record on, by name."""

from __future__ import annotations

from schedlens.record.platform import Platform
from schedlens.record.session import Session
from schedlens.record.windows.options import Options


def of(name: str, options: Options) -> Platform:
    """The platform of that name; of `options`, those other than `ring_s` are for Windows."""
    if name == "windows":
        from schedlens.record.windows.platform import Windows

        return Windows(options)
    from schedlens.record.linux.platform import Linux

    return Linux(options.ring_s)


def of_session(name: str, session: Session) -> Platform:
    """The platform of that name with the options of a resumed session."""
    return of(name, Options.of_session(session.file.windows))
