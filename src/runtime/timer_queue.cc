#include "runtime/timer_queue.h"

#include "keyway/detail/check.h"

namespace keyway {

bool TimerQueue::add(Timer& timer, TimePoint deadline) {
  MutexLock lock(mutex_);
  KEYWAY_CHECK(timer.heap_index_ == Timer::kNotQueued, "a timer was added twice");
  timer.deadline_ = deadline;
  heap_.push_back(&timer);
  timer.heap_index_ = heap_.size() - 1;
  sift_up(timer.heap_index_);
  return timer.heap_index_ == 0;
}

bool TimerQueue::cancel(Timer& timer) {
  MutexLock lock(mutex_);
  bool was_queued = false;
  while (true) {
    // Again after each wait: its fire() may have added it.
    if (timer.heap_index_ != Timer::kNotQueued) {
      remove(timer.heap_index_);
      was_queued = true;
    }
    if (firing_ != &timer || firing_thread_ == std::this_thread::get_id()) return was_queued;
    fired_.wait(mutex_);
  }
}

bool TimerQueue::fire_one(TimePoint now) {
  Timer* timer = nullptr;
  {
    MutexLock lock(mutex_);
    if (heap_.empty() || heap_.front()->deadline_ > now) return false;
    timer = heap_.front();
    remove(0);
    firing_ = timer;
    firing_thread_ = std::this_thread::get_id();
  }
  timer->fire();  // may free the timer
  MutexLock lock(mutex_);
  firing_ = nullptr;
  fired_.notify_all();
  return true;
}

std::optional<TimePoint> TimerQueue::next_deadline() const {
  MutexLock lock(mutex_);
  if (heap_.empty()) return std::nullopt;
  return heap_.front()->deadline_;
}

void TimerQueue::place(Timer& timer, std::size_t index) {
  heap_[index] = &timer;
  timer.heap_index_ = index;
}

void TimerQueue::sift_up(std::size_t index) {
  Timer& timer = *heap_[index];
  while (index > 0) {
    const std::size_t parent = (index - 1) / 2;
    if (heap_[parent]->deadline_ <= timer.deadline_) break;
    place(*heap_[parent], index);
    index = parent;
  }
  place(timer, index);
}

void TimerQueue::sift_down(std::size_t index) {
  Timer& timer = *heap_[index];
  while (true) {
    std::size_t child = 2 * index + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1]->deadline_ < heap_[child]->deadline_) ++child;
    if (timer.deadline_ <= heap_[child]->deadline_) break;
    place(*heap_[child], index);
    index = child;
  }
  place(timer, index);
}

void TimerQueue::remove(std::size_t index) {
  heap_[index]->heap_index_ = Timer::kNotQueued;
  Timer* last = heap_.back();
  heap_.pop_back();
  if (index == heap_.size()) return;
  place(*last, index);
  sift_up(index);
  sift_down(last->heap_index_);
}

}  // namespace keyway
