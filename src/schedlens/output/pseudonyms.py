"""Names that stand for others: keyed hashes, so that equal names remain equal and nobody can guess.

The hash is HMAC-SHA-256 (RFC 2104) with a secret. Without the secret, hashing a dictionary of
likely names finds none of them.
"""

from __future__ import annotations

import hashlib
import hmac
import re

_LETTERS = "bcdfghjklmnpqrst"
_WORD = 10
# A longer number, such as an account's or a year, may identify someone.
_SHORT_NUMBER = 3
_NUMBER = re.compile(r"[0-9]+")
_SEPARATORS = "/-_:. "

# Threads of the kernel, and processes that every Windows has.
WELL_KNOWN = re.compile(
    r"(swapper|migration|ksoftirqd|cpuhp|idle_inject)/\d{1,5}|kworker/u?\d{1,5}:\d{1,5}H?"
    r"|kthreadd|rcu_(preempt|sched|gp|par_gp)|kswapd\d{1,3}|kcompactd\d{1,3}|khugepaged|kauditd"
    r"|Idle|System|Registry"
)

# Parts of the path of a cgroup that every system has.
_CGROUPS = {
    "", "system.slice", "user.slice", "machine.slice", "init.scope", "app.slice", "session.slice",
    "background.slice", "kubepods", "kubepods.slice", "kubepods-burstable.slice",
    "kubepods-besteffort.slice", "burstable", "besteffort", "docker", "libpod_parent", "lxc",
}  # fmt: skip
_UNIT = re.compile(r"(.+)\.(service|scope|slice|socket|mount|swap)")
_RUNTIME = re.compile(r"(docker|libpod|libpod-conmon|cri-containerd|crio|crio-conmon)-(.+)\.scope")
_POD = re.compile(r"((?:kubepods(?:-burstable|-besteffort)?-)?pod)([0-9a-f_-]{16,})(\.slice)?")
_CONTAINER = re.compile(r"[0-9a-f]{12,64}")


def keyed(secret: bytes, text: str) -> str:
    """The keyed hash of a text, 64 hexadecimal digits."""
    return hmac.new(secret, text.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


class Pseudonyms:
    """The names that stand for the names of one export; the same name always gets the same one."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._names: dict[str, str] = {}
        self._cgroups: dict[str, str] = {}

    def name(self, text: str) -> str:
        """What stands for a name: a word of letters, then its numbers.

        Names that differ only in numbers share the word, so that a pool of threads remains one.
        """
        found = self._names.get(text)
        if found is None:
            found = self._names[text] = self._named(text)
        return found

    def _named(self, text: str) -> str:
        if not text or WELL_KNOWN.fullmatch(text):
            return text
        stem = _NUMBER.sub("#", text)
        word = self._word(stem)
        first = _NUMBER.search(text)
        # A query recognizes threads that the kernel binds by their names: `[a-z_]+/[0-9].*`.
        if first and not re.fullmatch(r"[a-z_]+/", text[: first.start()]):
            word = word.capitalize()
        parts = [word]
        for place, number in enumerate(_NUMBER.finditer(text)):
            before = text[number.start() - 1] if number.start() else ""
            separator = before if before in _SEPARATORS else "." * bool(place)
            parts.append(separator + self._number(stem, place, number[0]))
        return "".join(parts)

    def cgroup(self, path: str) -> str:
        """What stands for the path of a cgroup, part by part."""
        return "/".join(self._part(part) for part in path.split("/"))

    def _part(self, part: str) -> str:
        if part in _CGROUPS:
            return part
        found = self._cgroups.get(part)
        if found is None:
            found = self._cgroups[part] = self._parted(part)
        return found

    def _parted(self, part: str) -> str:
        if match := _RUNTIME.fullmatch(part):
            return f"{match[1]}-{self._container(match[2])}.scope"
        if match := _POD.fullmatch(part):
            # The kubelet writes the same id with dashes and, in names of systemd, with underlines.
            return f"{match[1]}{self._container(match[2].replace('_', '-'))[:32]}{match[3] or ''}"
        if _CONTAINER.fullmatch(part):
            return self._container(part)
        if match := _UNIT.fullmatch(part):
            instance = [self._word(text) for text in match[1].split("@")]
            return f"{'@'.join(instance)}.{match[2]}"
        return self._word(part)

    def _container(self, text: str) -> str:
        return keyed(self._secret, f"container {text}")

    def _word(self, text: str) -> str:
        digits = keyed(self._secret, f"name {text}")[:_WORD]
        return "".join(_LETTERS[int(digit, 16)] for digit in digits)

    def _number(self, stem: str, place: int, digits: str) -> str:
        if len(digits) <= _SHORT_NUMBER:
            return digits
        return str(int(keyed(self._secret, f"number {place} {digits} {stem}")[:12], 16))
