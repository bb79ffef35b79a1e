// For tests in which a fault would crash or hang: they run in a process of their own.
#pragma once

#include <cstdlib>

#include <unistd.h>

#include <gtest/gtest.h>

namespace keyway {

template <class Body>
void expect_ends(Body body, unsigned seconds = 10) {
  const auto run = [&] {
    alarm(seconds);
    body();
    std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

}  // namespace keyway
