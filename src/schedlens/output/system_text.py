"""The text that a program of the system prints to a pipe.

On Windows such programs write the OEM code page, such as cp850, and not the ANSI one that Python
assumes; a few write UTF-8 or mark their encoding.
"""

from __future__ import annotations

import codecs
import sys

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
