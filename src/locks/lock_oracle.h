// For tests: the holders and waiters of each lock, as seen from outside, and what must always be true of them.
#pragma once

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "keyway/lock_mode.h"
#include "support/schedules.h"

namespace keyway {

class LockOracle {
 public:
  // A task, or a branch of one: "3", "3.1", "3.1.0". A branch is a part of those whose name it begins with.
  using Name = std::string;

  static bool is_part_of(const Name& part, const Name& whole) {
    return part == whole || part.starts_with(whole + ".");
  }
  static Name task_of(const Name& name) { return name.substr(0, name.find('.')); }

  static constexpr const char* kNobody = "nobody";

  // Of one key, as seen from outside.
  struct Ask {
    Name who;
    LockMode mode;
    bool again = false;  // holds it already, or is a part of one that does
  };
  struct Key {
    std::vector<Ask> holds;
    std::vector<Ask> line;  // who asked and has neither got it nor given up; first in first
  };

  // The first thing that was wrong; empty if nothing was.
  const std::string& wrong() const { return wrong_; }
  void expect(bool holds, const std::string& what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }

  void say(const std::string& what) const {
    if (says_all_) std::cerr << what << '\n';
  }

  bool holds(const Name& me, const std::string& key) {
    const auto& all = keys_[key].holds;
    return std::any_of(all.begin(), all.end(),
                       [&](const Ask& hold) { return is_part_of(me, hold.who); });
  }
  // Whoever asked before has had it, has given up, or shares it.
  void check_turn(const Name& me, const std::string& key, LockMode mode) {
    for (const Ask& ask : keys_[key].line) {
      if (ask.who == me) {
        if (ask.again) return;
        break;
      }
    }
    for (const Ask& ask : keys_[key].line) {
      if (ask.who == me) return;
      if (all_at_once_.contains(ask.who)) continue;  // it may not have asked yet
      const bool both_share = mode == LockMode::kShared && ask.mode == LockMode::kShared;
      expect(both_share || cancelled_.contains(task_of(ask.who)),
             me + " has " + key + " before " + ask.who);
    }
  }
  void leave_line(const Name& me, const std::string& key) {
    std::erase_if(keys_[key].line, [&](const Ask& ask) { return ask.who == me; });
  }
  void begin_hold(const Name& me, const std::string& key, LockMode mode) {
    Key& state = keys_[key];
    for (const Ask& other : state.holds) {
      const bool both_share = mode == LockMode::kShared && other.mode == LockMode::kShared;
      expect(both_share || is_part_of(me, other.who),
             me + " and " + other.who + " both have " + key);
    }
    state.holds.push_back({me, mode});
  }
  void disowned(const Name& me, const std::string& key, LockMode mode) {
    for (Ask& hold : keys_[key].holds) {
      if (hold.who != me || hold.mode != mode) continue;
      hold.who = kNobody;
      return;
    }
  }
  void gives_back(const Name& me, const std::string& key, LockMode mode) {
    say(me + " gives back " + key);
    auto& all = keys_[key].holds;
    all.erase(std::find_if(all.begin(), all.end(),
                           [&](const Ask& hold) { return hold.who == me && hold.mode == mode; }));
  }

  // Whether a task waits for itself, by way of others; seen task by task, whatever branch it is.
  bool reaches(const Name& task) {
    std::set<Name> seen;
    std::vector<Name> next{task};
    while (!next.empty()) {
      const Name from = next.back();
      next.pop_back();
      const auto add = [&](const Name& to) {
        if (seen.insert(to).second) next.push_back(to);
      };
      for (const auto& [who, other] : waits_) {
        if (task_of(who) == from) add(other);
      }
      for (const auto& [key, state] : keys_) {
        for (const Ask& ask : state.line) {
          if (task_of(ask.who) != from) continue;
          for (const Ask& hold : state.holds) {
            if (!is_part_of(ask.who, hold.who)) add(task_of(hold.who));
          }
          for (const Ask& other : state.line) {
            // It may have this key already, and wait for the next one.
            if (other.who != ask.who && all_at_once_.contains(other.who)) add(task_of(other.who));
          }
        }
      }
    }
    return seen.contains(task);
  }

 protected:
  std::map<std::string, Key> keys_;
  std::map<Name, std::string> waits_;  // for a task
  std::set<Name> cancelled_;
  std::set<Name> all_at_once_;  // whose lock_all() has not returned

 private:
  const bool says_all_ = replays_a_seed();
  std::string wrong_;
};

}  // namespace keyway
