#include "explore/strategy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace keyway::explore {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  // From 0 to bound - 1.
  std::uint32_t below(std::uint32_t bound) {
    // splitmix64
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<std::uint32_t>((z ^ (z >> 31)) % bound);
  }

 private:
  std::uint64_t state_;
};

// Depth first: the first execution makes all choices by default. Each following one repeats the choices
// of the one before up to the last that has an alternative left, and takes that.
class Exhaustive final : public Strategy {
 public:
  explicit Exhaustive(int preemptions) : bound_(preemptions) {}

  bool next() override {
    if (depth_ < path_.size()) diverged();  // the last one ended before it had repeated its prefix
    depth_ = 0;
    preemptions_ = 0;
    if (!began_) {
      began_ = true;
      return true;
    }
    while (!path_.empty() && path_.back().alternatives == 0) path_.pop_back();
    if (path_.empty()) {
      exhausted_ = true;
      return false;
    }
    Node& last = path_.back();
    last.chosen = __builtin_ctz(last.alternatives);
    last.alternatives &= last.alternatives - 1;
    return true;
  }

  int choose(const Choice& choice) override {
    if (depth_ < path_.size() && path_[depth_].can_run != choice.can_run) diverged();
    if (depth_ == path_.size()) path_.push_back(make_node(choice));
    const Node& node = path_[depth_++];
    if (choice.goes_on && node.chosen != choice.running) ++preemptions_;
    return node.chosen;
  }

  bool is_exhausted() const override { return exhausted_; }
  std::uint64_t divergences() const override { return divergences_; }

 private:
  struct Node {
    std::uint32_t can_run = 0;
    std::uint32_t alternatives = 0;
    int chosen = 0;
  };
  // The scenario did not repeat itself, for it depends on something that the explorer does not control: what was
  // planned from here on means nothing any more.
  void diverged() {
    ++divergences_;
    path_.resize(depth_);
  }
  Node make_node(const Choice& choice) const {
    const int chosen = choice.by_default();
    const bool may_switch = !choice.goes_on || preemptions_ < bound_;
    return {choice.can_run, may_switch ? choice.can_run & ~(1U << chosen) : 0, chosen};
  }

  const int bound_;
  std::vector<Node> path_;
  std::size_t depth_ = 0;
  int preemptions_ = 0;
  bool began_ = false;
  bool exhausted_ = false;
  std::uint64_t divergences_ = 0;
};

class Pct final : public Strategy {
 public:
  Pct(int depth, std::uint64_t seed) : depth_(depth), random_(seed) {}

  bool next() override {
    longest_ = std::max(longest_, choices_);
    choices_ = 0;
    for (std::uint32_t i = 0; i < priorities_.size(); ++i) {
      priorities_[i] = i + static_cast<std::uint32_t>(depth_);
      std::swap(priorities_[i], priorities_[random_.below(i + 1)]);
    }
    changes_.clear();
    for (int i = 1; i < depth_; ++i) changes_.push_back(random_.below(std::max(longest_, 1U)));
    return true;
  }

  int choose(const Choice& choice) override {
    for (std::uint32_t i = 0; i < changes_.size(); ++i) {
      if (changes_[i] == choices_ && choice.running >= 0) {
        priorities_[static_cast<std::size_t>(choice.running)] = i;
      }
    }
    ++choices_;
    int best = -1;
    for (std::uint32_t left = choice.can_run; left != 0; left &= left - 1) {
      const int thread = __builtin_ctz(left);
      if (best < 0 || priority(thread) > priority(best)) best = thread;
    }
    return best;
  }

 private:
  std::uint32_t priority(int thread) const { return priorities_[static_cast<std::size_t>(thread)]; }

  const int depth_;
  Random random_;
  std::array<std::uint32_t, 8> priorities_{};
  std::vector<std::uint32_t> changes_;
  std::uint32_t choices_ = 0;
  std::uint32_t longest_ = 0;
};

class Uniform final : public Strategy {
 public:
  explicit Uniform(std::uint64_t seed) : random_(seed) {}
  bool next() override { return true; }
  int choose(const Choice& choice) override {
    std::uint32_t left = choice.can_run;
    for (std::uint32_t skip = random_.below(static_cast<std::uint32_t>(__builtin_popcount(left)));
         skip > 0; --skip) {
      left &= left - 1;
    }
    return __builtin_ctz(left);
  }

 private:
  Random random_;
};

class Replay final : public Strategy {
 public:
  explicit Replay(std::vector<Deviation> deviations) : deviations_(std::move(deviations)) {}
  bool next() override { return !std::exchange(began_, true); }
  int choose(const Choice& choice) override {
    const std::uint32_t number = choices_++;
    for (const Deviation& deviation : deviations_) {
      const bool can_run = (choice.can_run >> deviation.thread & 1) != 0;
      if (deviation.choice != number || !can_run) continue;
      ++followed_;
      return static_cast<int>(deviation.thread);
    }
    return choice.by_default();
  }
  std::uint64_t followed() const override { return followed_; }

 private:
  const std::vector<Deviation> deviations_;
  std::uint64_t followed_ = 0;
  std::uint32_t choices_ = 0;
  bool began_ = false;
};

}  // namespace

std::string to_string(const Deviation* deviations, std::size_t count) {
  if (count == 0) return "-";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += ',';
    text += std::to_string(deviations[i].choice) + ':' + std::to_string(deviations[i].thread);
  }
  return text;
}

std::vector<Deviation> parse_schedule(std::string_view text) {
  std::vector<Deviation> deviations;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end && *at != '-') {
    Deviation deviation;
    at = std::from_chars(at, end, deviation.choice).ptr + 1;
    at = std::from_chars(at, end, deviation.thread).ptr + 1;
    deviations.push_back(deviation);
  }
  return deviations;
}

std::unique_ptr<Strategy> exhaustive(int preemptions) {
  return std::make_unique<Exhaustive>(preemptions);
}
std::unique_ptr<Strategy> pct(int depth, std::uint64_t seed) {
  return std::make_unique<Pct>(depth, seed);
}
std::unique_ptr<Strategy> uniform(std::uint64_t seed) { return std::make_unique<Uniform>(seed); }
std::unique_ptr<Strategy> replay(std::string_view schedule) {
  return std::make_unique<Replay>(parse_schedule(schedule));
}

}  // namespace keyway::explore
