"""The text that a program of the system prints to a pipe, and that schedlens prints to one.

On Windows such programs write the OEM code page, such as cp850, and not the ANSI one that Python
assumes; a few write UTF-8 or mark their encoding.
"""

from __future__ import annotations

import codecs
import sys
from typing import TextIO

from schedlens.output import byte_order_mark

# Python knows the codec "oem" only on Windows.
CODE_PAGE = "oem" if sys.platform == "win32" else "utf-8"


def decoded(data: bytes, code_page: str = CODE_PAGE) -> str:
    """The text with \\n at the end of lines; what is no text in `code_page` becomes U+FFFD.

    UTF-8 comes first: letters of an OEM code page are hardly ever valid UTF-8 by chance.
    """
    name = byte_order_mark.encoding(data)
    try:
        text = codecs.decode(data, name)
    except UnicodeDecodeError:
        text = codecs.decode(data, code_page if name == "utf-8" else name, "replace")
    return text.replace("\r\n", "\n")


def print_as_utf8(streams: tuple[TextIO, ...], platform: str = sys.platform) -> None:
    """Makes redirected output UTF-8 on Windows; a console gets Unicode from Python in any case.

    Python would write the ANSI code page there, and fail at a character that it does not have.
    """
    if platform == "win32":
        for stream in streams:
            if hasattr(stream, "reconfigure") and not stream.isatty():
                stream.reconfigure(encoding="utf-8")
