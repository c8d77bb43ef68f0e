#!/usr/bin/env bash
# Installs from apt what a build needs and is missing; says what is lacking where it cannot.
#   ensure-deps.sh swift   only looks for a Swift toolchain
#   ensure-deps.sh build   and the C libraries
#   ensure-deps.sh test    and what reads docs/vectors, and speaks WebSocket, independently of our code
set -eu
want=${1:-build}
PATH=$PATH:/opt/swift/usr/bin
lacking=()

say() { printf '%s\n' "$*" >&2; }

check_swift() {
    if ! command -v swift >/dev/null; then
        lacking+=("a Swift toolchain, 6.3 or newer: none on PATH, nor in /opt/swift/usr/bin. Get one from https://www.swift.org/install")
        return
    fi
    local version
    version=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9]*\.[0-9]*\).*/\1/p' | head -n 1)
    local major=${version%%.*} minor=${version#*.}
    if [ -z "$version" ] || [ "$major" -lt 6 ] || { [ "$major" -eq 6 ] && [ "$minor" -lt 3 ]; }; then
        lacking+=("a Swift toolchain, 6.3 or newer: $(command -v swift) is ${version:-of an unknown version}")
    fi
}

has_library() { command -v pkg-config >/dev/null && pkg-config --exists "$1"; }
has_module() { system_python -c "import $1" 2>/dev/null; }
# Debian's packages for Python are the system's interpreter's, which need not be the first on PATH.
system_python() { if [ -x /usr/bin/python3 ]; then /usr/bin/python3 "$@"; else python3 "$@"; fi; }

missing_packages() {
    command -v pkg-config >/dev/null || echo pkg-config
    has_library lmdb || echo liblmdb-dev
    has_library libzstd || echo libzstd-dev
    has_library nettle || echo nettle-dev
    if [ "$want" = test ]; then
        command -v python3 >/dev/null || echo python3
        command -v protoc >/dev/null || echo protobuf-compiler
        has_module google.protobuf || echo python3-protobuf
        has_module websockets || echo python3-websockets
    fi
}

install() {
    local root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || return 1
        root=(sudo)
    fi
    say "Installing from apt: $*"
    # The lists of a fresh machine may be absent or old: then once more with new ones.
    DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y --no-install-recommends "$@" >&2 && return 0
    "${root[@]}" apt-get update >&2 || return 1
    DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y --no-install-recommends "$@" >&2
}

check_swift
if [ "$want" != swift ]; then
    mapfile -t packages < <(missing_packages)
    if [ "${#packages[@]}" -gt 0 ] && command -v apt-get >/dev/null; then
        install "${packages[@]}" || say "apt-get could not install them."
        mapfile -t packages < <(missing_packages)
    fi
    for package in "${packages[@]}"; do lacking+=("$package (Debian's name; \`apt-get install $package\`, or your system's equivalent)"); done
fi
if [ "${#lacking[@]}" -gt 0 ]; then
    say "convstore cannot be built here. It lacks:"
    for item in "${lacking[@]}"; do say "  - $item"; done
    exit 69
fi
