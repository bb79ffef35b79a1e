// The version of these headers. The build system reads it from here.
#pragma once

#define KEYWAY_VERSION_MAJOR 0
#define KEYWAY_VERSION_MINOR 1
#define KEYWAY_VERSION_PATCH 0

// The same as text, and as one number that #if can compare: #if KEYWAY_VERSION >= 200 is true from 0.2.0.
#define KEYWAY_VERSION_STRING "0.1.0"
#define KEYWAY_VERSION \
  (KEYWAY_VERSION_MAJOR * 10000 + KEYWAY_VERSION_MINOR * 100 + KEYWAY_VERSION_PATCH)
