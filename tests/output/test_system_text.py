"""What system programs print in the OEM code page of Windows; the code pages are simulated."""

from __future__ import annotations

import io
import sys

import pytest
import windows_texts

from schedlens.output import system_text
from schedlens.record.windows import power_plan, settings


@pytest.mark.parametrize("encoding", ["cp850", "cp437", "utf-8", "utf-16"])
def test_code_page_of_system_tools_is_decoded(encoding: str) -> None:
    said = windows_texts.GERMAN_PROCESSOR_POWER.replace("\n", "\r\n").encode(encoding)
    page = encoding if encoding.startswith("cp") else "cp850"
    text = system_text.decoded(said, page)
    assert text == windows_texts.GERMAN_PROCESSOR_POWER
    assert power_plan.active(text) == "Höchstleistung (8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c)"


def test_ansi_code_page_garbles_what_the_oem_one_reads() -> None:
    said = "Höchstleistung".encode("cp850")
    assert said.decode("cp1252") != "Höchstleistung"
    assert system_text.decoded(said, "cp850") == "Höchstleistung"
    assert system_text.decoded(said, "ascii") == "H\ufffdchstleistung"


def test_settings_read_the_code_page_of_their_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_text.decoded, "__defaults__", ("cp850",))
    said = "Höchstleistung".encode("cp850")
    program = f"import sys; sys.stdout.buffer.write({said!r})"
    assert settings.run([sys.executable, "-c", program]) == "Höchstleistung"


def test_redirected_output_is_utf8_instead_of_the_code_page() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="cp1252")
    system_text.print_as_utf8((stream,), "linux")
    assert stream.encoding == "cp1252"
    with pytest.raises(UnicodeEncodeError):
        stream.write("≥")
    system_text.print_as_utf8((stream,), "win32")
    stream.write("≥ 1")
    stream.flush()
    assert raw.getvalue().decode("utf-8") == "≥ 1"
