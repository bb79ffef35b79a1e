// std::atomic for exploration builds: each operation is a point at which another thread may run first.
// The explorer runs one thread at a time, so every interleaving is sequentially consistent; the memory
// orders only say which operations happen before which.
#pragma once

#include <atomic>

#include "base/explore_hooks.h"

namespace keyway::explore {

template <class T>
class ExploredAtomic {
 public:
  using value_type = T;

  constexpr ExploredAtomic() noexcept : ExploredAtomic(T{}) {}
  constexpr ExploredAtomic(T value) noexcept : value_(value) {  // NOLINT: as std::atomic
    if (!std::is_constant_evaluated()) forget(this);
  }
  ExploredAtomic(const ExploredAtomic&) = delete;
  ExploredAtomic& operator=(const ExploredAtomic&) = delete;

  T load(std::memory_order order = std::memory_order_seq_cst) const {
    before_access(this);
    const T value = value_.load(std::memory_order_relaxed);
    after_access(this, Access::kLoad, order);
    return value;
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    before_access(this);
    value_.store(value, std::memory_order_relaxed);
    after_access(this, Access::kStore, order);
  }
  operator T() const { return load(); }  // NOLINT: as std::atomic
  T operator=(T value) {
    store(value);
    return value;
  }

  T exchange(T value, std::memory_order order = std::memory_order_seq_cst) {
    return modify(order, [&] { return value_.exchange(value, std::memory_order_relaxed); });
  }
  bool compare_exchange_strong(T& expected, T wanted, std::memory_order success,
                               std::memory_order failure) {
    before_access(this);
    const bool exchanged =
        value_.compare_exchange_strong(expected, wanted, std::memory_order_relaxed);
    if (exchanged) {
      after_access(this, Access::kReadModifyWrite, success);
    } else {
      after_access(this, Access::kLoad, failure);
    }
    return exchanged;
  }
  bool compare_exchange_strong(T& expected, T wanted,
                               std::memory_order order = std::memory_order_seq_cst) {
    return compare_exchange_strong(expected, wanted, order, failure_order(order));
  }
  bool compare_exchange_weak(T& expected, T wanted, std::memory_order success,
                             std::memory_order failure) {
    return compare_exchange_strong(expected, wanted, success, failure);
  }
  bool compare_exchange_weak(T& expected, T wanted,
                             std::memory_order order = std::memory_order_seq_cst) {
    return compare_exchange_strong(expected, wanted, order);
  }

  template <class U>
  T fetch_add(U change, std::memory_order order = std::memory_order_seq_cst) {
    return modify(order, [&] { return value_.fetch_add(change, std::memory_order_relaxed); });
  }
  template <class U>
  T fetch_sub(U change, std::memory_order order = std::memory_order_seq_cst) {
    return modify(order, [&] { return value_.fetch_sub(change, std::memory_order_relaxed); });
  }
  T fetch_or(T bits, std::memory_order order = std::memory_order_seq_cst) {
    return modify(order, [&] { return value_.fetch_or(bits, std::memory_order_relaxed); });
  }
  T fetch_and(T bits, std::memory_order order = std::memory_order_seq_cst) {
    return modify(order, [&] { return value_.fetch_and(bits, std::memory_order_relaxed); });
  }
  T operator++() { return fetch_add(1) + 1; }
  T operator--() { return fetch_sub(1) - 1; }

  // For futex_wait(): no yield point between this look and the sleep.
  T value_now() const { return value_.load(std::memory_order_relaxed); }

 private:
  template <class Change>
  T modify(std::memory_order order, Change change) {
    before_access(this);
    const T before = change();
    after_access(this, Access::kReadModifyWrite, order);
    return before;
  }
  static constexpr std::memory_order failure_order(std::memory_order order) {
    if (order == std::memory_order_acq_rel) return std::memory_order_acquire;
    return order == std::memory_order_release ? std::memory_order_relaxed : order;
  }

  std::atomic<T> value_;
};

}  // namespace keyway::explore
