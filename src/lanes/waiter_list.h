// A FIFO of waiters that costs no allocation and lets any of them leave from the middle.
#pragma once

#include "base/prefetch.h"
#include "keyway/detail/waiter.h"

namespace keyway {

class WaiterList {
 public:
  WaiterList() : ends_{&ends_, &ends_} {}
  WaiterList(const WaiterList&) = delete;
  WaiterList& operator=(const WaiterList&) = delete;

  bool empty() const { return ends_.next == &ends_; }
  Waiter* front() const { return ends_.next; }         // REQUIRES: not empty
  const Waiter* end_marker() const { return &ends_; }  // what the last one's `next` is
  // The waiter in front of `waiter`, or null; the last waiter of the list if `waiter` is null.
  // REQUIRES: `waiter` is in the list, or null.
  const Waiter* in_front_of(const Waiter* waiter) const {
    const Waiter* found = waiter != nullptr ? waiter->previous : ends_.previous;
    return found != &ends_ ? found : nullptr;
  }
  bool has_more_than_one() const { return ends_.next != ends_.previous; }

  void push_back(Waiter& waiter) {
    waiter.next = &ends_;
    waiter.previous = ends_.previous;
    ends_.previous->next = &waiter;
    ends_.previous = &waiter;
  }

  void push_front(Waiter& waiter) {
    waiter.previous = &ends_;
    waiter.next = ends_.next;
    ends_.next->previous = &waiter;
    ends_.next = &waiter;
  }

  // In front of `place`, which is in the list, or its end_marker().
  static void insert_before(const Waiter& place, Waiter& waiter) {
    auto& next = const_cast<Waiter&>(place);
    waiter.next = &next;
    waiter.previous = next.previous;
    next.previous->next = &waiter;
    next.previous = &waiter;
  }

  // REQUIRES: not empty.
  Waiter& pop_front() {
    Waiter& waiter = *ends_.next;
    unlink(waiter);
    // The caller runs `waiter` now; by the time it comes back for the next, its memory is here: the
    // links, and what whoever waits has behind them.
    prefetch_to_write(ends_.next);
    prefetch_to_write(ends_.next, 64);
    return waiter;
  }

  // Of whichever list it stands in.
  static void unlink(Waiter& waiter) {
    waiter.previous->next = waiter.next;
    waiter.next->previous = waiter.previous;
    waiter.previous = nullptr;
  }
  static void replace(Waiter& old, Waiter& newcomer) {
    newcomer.next = old.next;
    newcomer.previous = old.previous;
    old.previous->next = &newcomer;
    old.next->previous = &newcomer;
    old.previous = nullptr;
  }
  // Whether it stands in a list.
  static bool linked(const Waiter& waiter) { return waiter.previous != nullptr; }

  // For a look at all of them, first in first.
  class Iterator {
   public:
    explicit Iterator(const Waiter* at) : at_(at) {}
    const Waiter& operator*() const { return *at_; }
    Iterator& operator++() {
      at_ = at_->next;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const Waiter* at_;
  };
  Iterator begin() const { return Iterator(ends_.next); }
  Iterator end() const { return Iterator(&ends_); }

  // Moves all of `other` to the end of this list.
  void append(WaiterList& other) {
    if (other.empty()) return;
    Waiter* first = other.ends_.next;
    Waiter* last = other.ends_.previous;
    first->previous = ends_.previous;
    ends_.previous->next = first;
    last->next = &ends_;
    ends_.previous = last;
    other.ends_ = {&other.ends_, &other.ends_};
  }

 private:
  Waiter ends_;  // next: the first; previous: the last
};

}  // namespace keyway
