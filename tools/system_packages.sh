#!/usr/bin/env bash
# Installs what recording or testing needs from the system: PROGRAM:PACKAGE ...
# Installs them as root or with a sudo that needs no password, else prints the command.
set -u
missing=()
for pair in "$@"; do
  command -v "${pair%%:*}" >/dev/null 2>&1 || missing+=("${pair##*:}")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ]; then as=(); elif sudo -n true 2>/dev/null; then as=(sudo -n); else as=(none); fi
if ! command -v apt-get >/dev/null 2>&1; then
  echo "missing: ${missing[*]} (Debian's names); Ubuntu: linux-tools-\$(uname -r), Fedora: perf" >&2
  echo "install them with this system's package manager; continuing without them" >&2
  exit 0
fi
if [ "${as[*]-}" = none ]; then
  echo "missing: ${missing[*]}; install with: sudo apt-get install ${missing[*]}" >&2
  echo "continuing without them" >&2
  exit 0
fi
echo "installing ${missing[*]} with apt-get"
"${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null 2>&1
if ! "${as[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null; then
  echo "apt-get could not install ${missing[*]}; continuing without them" >&2
fi
exit 0
