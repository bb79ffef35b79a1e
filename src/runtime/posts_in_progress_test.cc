#include "runtime/posts_in_progress.h"

#include <atomic>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

namespace keyway {
namespace {

TEST(PostsInProgress, AllAreWaitedFor) {
  PostsInProgress posts;
  for (int round = 0; round < 200; ++round) {
    std::latch begun(2);
    std::latch waits(1);
    std::atomic<int> ended{0};
    const auto post = [&] {
      const PostsInProgress::Post in_progress(posts);
      begun.count_down();
      waits.wait();
      ++ended;
    };
    std::thread first(post);
    std::thread second(post);
    begun.wait();
    waits.count_down();
    posts.wait_for_all();
    EXPECT_EQ(ended, 2);
    first.join();
    second.join();
  }
}

}  // namespace
}  // namespace keyway
