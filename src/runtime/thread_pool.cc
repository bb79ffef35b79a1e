#include "keyway/thread_pool.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>

#include "base/futex.h"
#include "base/spin_lock.h"
#include "base/tick_clock.h"
#include "keyway/detail/block_pool.h"
#include "keyway/detail/check.h"
#include "keyway/error.h"
#include "runtime/current_scheduler.h"
#include "runtime/thread_pool_impl.h"

namespace keyway {
namespace {

// A worker that finds no work searches for about 30 us before it sleeps, and yields its core from
// time to time. Waking a sleeping worker costs the poster 13 us and delays the task by 40 us.
constexpr int kSearchRounds = 300;
constexpr int kEagerRounds = 100;  // later rounds pause longer: the queue's cache line is shared
constexpr int kRoundsBeforeYield = 100;
constexpr int kYieldsOnOneCore = 8;

constexpr unsigned kWakeAtOnce = 4;

unsigned usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    return std::max(1U, static_cast<unsigned>(CPU_COUNT(&set)));
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

struct ThisThread {
  const void* pool = nullptr;
  Worker* worker = nullptr;
};
constinit thread_local ThisThread this_thread;

}  // namespace

ThreadPool::Impl::Impl(ThreadPool& pool, ThreadPoolOptions options)
    : pool_(pool),
      cores_(usable_cores()),
      base_threads_(options.threads > 0 ? options.threads : std::min(cores_, options.max_threads)),
      max_threads_(options.max_threads),
      idle_timeout_(options.idle_timeout),
      target_(base_threads_),
      growth_(base_threads_, max_threads_),
      service_([this] { return tick(); }, [this] { return !ready_.empty() || !join_exited(); }) {
  for (unsigned i = 0; i < base_threads_; ++i) {
    KEYWAY_CHECK(spawn() || i > 0, "the system gives no thread at all");
  }
}

void ThreadPool::Impl::end_threads() {
  KEYWAY_CHECK(this_thread.pool != this,
               "a thread pool cannot be destroyed by its own thread, nor ended");
  stopping_.store(true, std::memory_order_seq_cst);
  wake(max_threads_, /*unless_searching=*/false);  // a worker that parks after this sees stopping_
  join_all();
  service_.end_thread();
}

Worker* ThreadPool::Impl::this_worker() const {
  return this_thread.pool == this ? this_thread.worker : nullptr;
}

void ThreadPool::Impl::post_from_outside(Runnable& runnable) {
  if (this_thread.pool == this) return post(runnable);  // the pool outlives its own threads
  const PostsInProgress::Post in_progress(posts_);
  post(runnable);
}

// ---- what a worker does

void ThreadPool::Impl::run(Worker& me) {
  this_thread = {.pool = this, .worker = &me};
  const CurrentScheduler current(&pool_);
  TickClock clock;
  Turn turn{.clock = &clock};
  bool searching = true;   // as IdleProtocol::thread_started() has it
  bool owes_wake = false;  // an item was posted without wake_if_needed()
  while (true) {
    Woken woken = Woken::kToSearch;
    if (Runnable* item = ready_.pop()) {
      const bool last_searcher = searching && idle_.stop_searching();
      searching = false;
      if ((last_searcher || owes_wake) && !ready_.empty()) wake_if_needed();
      owes_wake = run_one(*item, turn, me);
      // relaxed: a hint. When blocked workers go on, more workers may be active than the target.
      if (!idle_.park_surplus(target_.load(std::memory_order_relaxed))) continue;
      if (owes_wake) wake_if_needed();
      woken = park_surplus(me);
    } else {
      if (!searching) searching = idle_.start_searching();
      owes_wake = false;  // another worker took the item
      if (searching && search()) continue;
      woken = park(me, searching);
    }
    if (woken == Woken::kToEnd) break;
    searching = true;
  }
}

// True if the item asked to run again. It was posted; the caller must search for it, or wake a
// worker.
bool ThreadPool::Impl::run_one(Runnable& item, Turn& turn, Worker& me) {
  // The worker alone writes turn_edges; release pairs with wait_for_turns_in_progress().
  const std::uint64_t edge = me.turn_edges.load(std::memory_order_relaxed);
  me.turn_edges.store(edge + 1, std::memory_order_relaxed);
  item.run(turn);
  me.turn_edges.store(edge + 2, std::memory_order_release);
  turn_watch_.changed();
  Runnable* again = std::exchange(turn.again, nullptr);
  if (again == nullptr) return false;
  ready_.push(*again);
  return true;
}

bool ThreadPool::Impl::search() const {
  if (cores_ == 1) {
    for (int i = 0; i < kYieldsOnOneCore; ++i) {
      if (!ready_.empty()) return true;
      std::this_thread::yield();
    }
    return false;
  }
  for (int round = 0; round < kSearchRounds; ++round) {
    if (!ready_.empty()) return true;
    // relaxed: a hint, looked at again in park().
    if (stopping_.load(std::memory_order_relaxed)) return false;
    const int pauses = round < kEagerRounds ? 4 : 16;
    for (int i = 0; i < pauses; ++i) cpu_relax();
    if (round % kRoundsBeforeYield == kRoundsBeforeYield - 1) std::this_thread::yield();
  }
  return false;
}

ThreadPool::Impl::Woken ThreadPool::Impl::park(Worker& me, bool searching) {
  {
    MutexLock lock(park_mutex_);
    enlist_parked(me);
    idle_.park(searching);
  }
  // The last look into the queue, after idle_ says that this worker sleeps: see IdleProtocol.
  const bool stopping = stopping_.load(std::memory_order_seq_cst);
  if ((stopping || !ready_.empty()) && leave_parked(me)) {
    if (!stopping || !ready_.empty()) return Woken::kToSearch;
    idle_.stop_searching();
    idle_.thread_ended();
    return Woken::kToEnd;
  }
  return sleep(me);
}

// The worker counts as parked already. Other workers are active, so it need not look into the queue
// again.
ThreadPool::Impl::Woken ThreadPool::Impl::park_surplus(Worker& me) {
  {
    MutexLock lock(park_mutex_);
    enlist_parked(me);
  }
  if (stopping_.load(std::memory_order_seq_cst) && leave_parked(me)) return Woken::kToSearch;
  return sleep(me);
}

ThreadPool::Impl::Woken ThreadPool::Impl::sleep(Worker& me) {
  me.parks.fetch_add(1, std::memory_order_relaxed);
  const auto slept_until = [&me](Deadline deadline) {
    // acquire: pairs with wake().
    while (me.wake_token.load(std::memory_order_acquire) == 0) {
      if (!futex_wait(me.wake_token, 0, deadline)) return false;
    }
    me.wake_token.store(0, std::memory_order_relaxed);
    return true;
  };
  const TimePoint began = std::chrono::steady_clock::now();
  if (slept_until(began + detail::kBlocksKept)) return Woken::kToSearch;
  give_memory_back();
  if (slept_until(began + idle_timeout_)) return Woken::kToSearch;
  if (end_if_surplus(me)) return Woken::kToEnd;
  slept_until(std::nullopt);
  return Woken::kToSearch;
}

// Releases the memory that this thread caches and, if no worker is active, the shared caches.
void ThreadPool::Impl::give_memory_back() {
  detail::release_thread_blocks();
  if (idle_.counts().active() > 0) return;
  {
    MutexLock lock(listeners_mutex_);
    for (IdleListener* listener : listeners_) listener->scheduler_is_idle();
  }
  detail::trim_blocks();
}

bool ThreadPool::Impl::leave_parked(Worker& me) {
  MutexLock lock(park_mutex_);
  if (!me.in_parked_list) return false;  // another thread is waking this worker
  delist_parked(me);
  // The worker searches: several items may have been posted since it stopped searching.
  idle_.unpark_to_search();
  return true;
}

bool ThreadPool::Impl::end_if_surplus(Worker& me) {
  MutexLock lock(park_mutex_);
  if (!me.in_parked_list || idle_.counts().threads <= base_threads_) return false;
  delist_parked(me);
  idle_.thread_ended_parked();
  return true;
}

void ThreadPool::Impl::enlist_parked(Worker& me) {
  me.in_parked_list = true;
  me.previous_parked = last_parked_;
  me.next_parked = nullptr;
  if (last_parked_ != nullptr) last_parked_->next_parked = &me;
  last_parked_ = &me;
}

void ThreadPool::Impl::delist_parked(Worker& me) {
  me.in_parked_list = false;
  if (me.previous_parked != nullptr) me.previous_parked->next_parked = me.next_parked;
  if (me.next_parked != nullptr) me.next_parked->previous_parked = me.previous_parked;
  if (last_parked_ == &me) last_parked_ = me.previous_parked;
}

// ---- waking

void ThreadPool::Impl::wake_if_needed() {
  const IdleCounts counts = idle_.counts();
  if (counts.searching > 0) return;
  const unsigned target = target_.load(std::memory_order_relaxed);
  if (counts.parked > 0 && counts.active() < target) {
    wake(target > base_threads_ ? std::min(kWakeAtOnce, target - counts.active()) : 1,
         /*unless_searching=*/true);
  }
  // No worker is left to wake, or all base threads are active: the service thread watches for
  // blocked ones.
  if (counts.parked == 0 || counts.active() >= base_threads_) service_.want_ticks();
}

void ThreadPool::Impl::wake(unsigned how_many, bool unless_searching) {
  Worker* woken = nullptr;
  {
    MutexLock lock(park_mutex_);
    if (unless_searching && idle_.counts().searching > 0) return;
    for (; how_many > 0 && last_parked_ != nullptr; --how_many) {
      Worker* worker = last_parked_;  // the last to sleep has the warmest cache
      delist_parked(*worker);
      idle_.unpark_to_search();
      worker->next_parked = woken;
      woken = worker;
    }
  }
  while (woken != nullptr) {
    Worker* next = woken->next_parked;  // not to be read once it is awake
    woken->wake_token.store(1, std::memory_order_release);
    futex_wake_one(woken->wake_token);
    woken = next;
  }
}

void ThreadPool::Impl::check_unused() {
  MutexLock lock(listeners_mutex_);
  KEYWAY_CHECK(listeners_.empty(),
               "a ThreadPool is destroyed before an executor that uses it; declare the pool first");
}

void ThreadPool::Impl::add_idle_listener(IdleListener& listener) {
  MutexLock lock(listeners_mutex_);
  listeners_.push_back(&listener);
}

void ThreadPool::Impl::remove_idle_listener(IdleListener& listener) {
  MutexLock lock(listeners_mutex_);
  std::erase(listeners_, &listener);
}

bool ThreadPool::Impl::wait_for_turns_in_progress(const TimePoint* deadline) {
  // A copy: while this waits, the pool may grow and shrink.
  std::vector<std::shared_ptr<Worker>> workers;
  {
    MutexLock lock(workers_mutex_);
    workers = workers_;
  }
  for (const auto& worker : workers) {
    if (worker.get() == this_thread.worker) continue;
    // acquire: pairs with run_one().
    const std::uint64_t edge = worker->turn_edges.load(std::memory_order_acquire);
    if (edge % 2 == 0) continue;
    const auto over = [&worker, edge] {
      return worker->turn_edges.load(std::memory_order_acquire) != edge ||
             worker->blocking_depth.load(std::memory_order_acquire) > 0;
    };
    if (!turn_watch_.wait(over, deadline, pool_)) return false;
  }
  return true;
}

ThreadPool& detail::background_pool() {
  // Never destroyed: executors with static storage may need it when the program ends.
  static ThreadPool* const pool = new ThreadPool({.threads = 1});
  return *pool;
}

namespace {

ThreadPoolOptions checked(ThreadPoolOptions options) {
  if (options.idle_timeout < Duration::zero()) {
    throw Exception(
        {ErrorCode::kInvalidArgument, "idle_timeout is negative; it must be at least 0"});
  }
  const unsigned least = std::max(1U, options.threads);
  if (options.max_threads >= least) return options;
  throw Exception(
      {ErrorCode::kInvalidArgument, "max_threads is " + std::to_string(options.max_threads) +
                                        "; it must be at least " + std::to_string(least) +
                                        (least > 1 ? ", the value of threads" : "")});
}

}  // namespace

ThreadPool::ThreadPool(ThreadPoolOptions options)
    : impl_(std::make_unique<Impl>(*this, checked(options))) {}
ThreadPool::~ThreadPool() { impl_->check_unused(); }
void ThreadPool::end_threads() { impl_->end_threads(); }
void ThreadPool::post(Runnable& runnable) { impl_->post(runnable); }
void ThreadPool::post_from_outside(Runnable& runnable) { impl_->post_from_outside(runnable); }
TimePoint ThreadPool::now() const { return std::chrono::steady_clock::now(); }
void ThreadPool::add_timer(Timer& timer, TimePoint deadline) { impl_->add_timer(timer, deadline); }
bool ThreadPool::cancel_timer(Timer& timer) { return impl_->cancel_timer(timer); }
bool ThreadPool::wait_for_turns_in_progress(const TimePoint* deadline) {
  return impl_->wait_for_turns_in_progress(deadline);
}
void ThreadPool::add_idle_listener(IdleListener& listener) { impl_->add_idle_listener(listener); }
void ThreadPool::remove_idle_listener(IdleListener& listener) {
  impl_->remove_idle_listener(listener);
}
std::size_t ThreadPool::max_threads() const { return impl_->max_threads(); }

}  // namespace keyway
