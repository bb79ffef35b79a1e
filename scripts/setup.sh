#!/usr/bin/env bash
# Makes sure that the packages a command needs are installed: scripts/setup.sh build|bite|check|bench
#
# Silent when nothing is missing. Otherwise installs what is missing, on Debian, as root or through sudo; where it
# may not, it says what to install and fails. KEYWAY_SKIP_SETUP=1 skips all of this for a machine that
# has the tools by other means.
set -euo pipefail

# One package per line, with how to recognise it when it did not come from a package: a program on the PATH, a
# header below /usr/include or /usr/local/include, or - for none.
build_packages='
  g++                 g++
  make                make
  cmake               cmake
  ninja-build         ninja
  pkgconf             pkg-config
  libgtest-dev        gtest/gtest.h
  libcli11-dev        CLI/CLI.hpp
  libtomlplusplus-dev toml++/toml.h
  libfmt-dev          fmt/format.h
  libsimdjson-dev     simdjson.h
  libsqlite3-dev      sqlite3.h
  libboost1.81-dev    boost/url.hpp
  libssl-dev          openssl/ssl.h
'
bite_packages="$build_packages"'
  python3             python3
'
check_packages="$bite_packages"'
  clang-19            clang++-19
  clang-tidy-19       clang-tidy-19
  clang-format-19     clang-format-19
  libclang-rt-19-dev  -
'
bench_packages="$bite_packages"'
  libtbb-dev          tbb/tbb.h
  golang-go           go
  parallel            parallel
'

group="${1:-}"
case "$group" in
  build) wanted="$build_packages" ;;
  bite) wanted="$bite_packages" ;;
  check) wanted="$check_packages" ;;
  bench) wanted="$bench_packages" ;;
  *)
    echo "usage: scripts/setup.sh build|bite|check|bench" >&2
    exit 2
    ;;
esac
[[ -z "${KEYWAY_SKIP_SETUP:-}" ]] || exit 0

installed=' '
if command -v dpkg-query >/dev/null; then
  # shellcheck disable=SC2046  # package names have no spaces
  installed=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' \
    $(awk '{ print $1 }' <<<"$wanted") 2>/dev/null || true)"
fi

missing=()
while read -r package probe; do
  [[ -n "$package" && "$installed" != *" installed=$package "* ]] || continue
  case "$probe" in
    -) ;;
    */*) [[ ! -e "/usr/include/$probe" && ! -e "/usr/local/include/$probe" ]] || continue ;;
    *) ! command -v "$probe" >/dev/null || continue ;;
  esac
  missing+=("$package")
done <<<"$wanted"
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ "$(id -u)" -ne 0 ]]; then as_root=(sudo); fi
# --no-remove: a package that conflicts with one already here is for the user to decide.
install=(apt-get install -y --no-install-recommends --no-remove "${missing[@]}")

give_up() {
  echo "setup: $1" >&2
  echo "setup: missing packages: ${missing[*]}" >&2
  echo "setup: install them on Debian with: sudo apt-get update && sudo ${install[*]}" >&2
  exit 1
}

command -v apt-get >/dev/null || give_up "no apt-get here to install packages with"
if [[ ${#as_root[@]} -gt 0 ]]; then
  command -v sudo >/dev/null || give_up "installing packages needs root, and there is no sudo"
  # Only a person at a terminal can answer a password question.
  [[ -t 0 ]] || sudo -n true 2>/dev/null || give_up "installing packages needs root, and sudo asks for a password"
fi

echo "setup: installing ${missing[*]}"
apt_options=(-qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120)
"${as_root[@]}" apt-get "${apt_options[@]}" update ||
  echo "setup: the package lists could not all be refreshed; trying with what is there" >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" "${apt_options[@]}" </dev/null ||
  give_up "apt-get failed"
