// For tests in which a fault would crash or hang: they run in a process of their own.
#pragma once

#include <cstdlib>
#include <iostream>

#include <unistd.h>

#include <gtest/gtest.h>

namespace keyway {

// The child's own reporters are silent: this prints what failed to where the parent looks.
inline void print_failures() {
  const ::testing::TestResult& result =
      *::testing::UnitTest::GetInstance()->current_test_info()->result();
  for (int i = 0; i < result.total_part_count(); ++i) {
    const ::testing::TestPartResult& part = result.GetTestPartResult(i);
    if (part.failed())
      std::cerr << part.file_name() << ':' << part.line_number() << ": " << part.message();
  }
}

// So long that only a hang takes longer, also under a sanitizer on a busy machine.
inline constexpr unsigned kHangSeconds = 60;

template <class Body>
void expect_ends(Body body, unsigned seconds = kHangSeconds) {
  const auto run = [&] {
    alarm(seconds);
    body();
    print_failures();
    std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
  };
  // The process starts anew: a copy of this one would lack the threads that the library has by now.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

}  // namespace keyway
