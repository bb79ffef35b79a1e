# What the program needs besides the library. On Debian 12: see scripts/setup.sh.
keyway_find_packages("The program keyway"
  "To build the library alone, configure with -DKEYWAY_BUILD_PROGRAM=OFF."
  CLI11:libcli11-dev tomlplusplus:libtomlplusplus-dev fmt:libfmt-dev
  Boost:libboost1.81-dev OpenSSL:libssl-dev)
