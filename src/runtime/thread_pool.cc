#include "keyway/thread_pool.h"

#include <algorithm>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sched.h>

#include "base/futex.h"
#include "base/mutex.h"
#include "base/spin_lock.h"
#include "base/tick_clock.h"
#include "keyway/detail/block_pool.h"
#include "keyway/detail/check.h"
#include "keyway/detail/idle_listener.h"
#include "keyway/error.h"
#include "lanes/ready_queue.h"
#include "runtime/current_scheduler.h"
#include "runtime/idle_protocol.h"
#include "runtime/pool_growth.h"
#include "runtime/posts_in_progress.h"
#include "runtime/service_thread.h"
#include "runtime/turn_watch.h"
#include "runtime/worker.h"

namespace keyway {
namespace {

// A worker that finds nothing looks on for about 30 us before it sleeps: waking it costs the one
// who posts 13 us and the task 40. Now and then it lets others have the core.
constexpr int kSearchRounds = 300;
constexpr int kEagerRounds = 100;  // at first it looks often, later it leaves the line to others
constexpr int kRoundsBeforeYield = 100;
constexpr int kYieldsOnOneCore = 8;

constexpr unsigned kWakeAtOnce = 4;
constexpr int kQuietTicksBeforeSleep = 16;

unsigned usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    return std::max(1U, static_cast<unsigned>(CPU_COUNT(&set)));
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

class ThreadPool::Impl {
 public:
  Impl(ThreadPool& pool, ThreadPoolOptions options);
  ~Impl() {
    end_threads();
    posts_.wait_for_all();
  }
  void end_threads() KEYWAY_EXCLUDES(workers_mutex_);

  void post(Runnable& runnable) {
    ready_.push(runnable);
    wake_if_needed();
  }
  void post_from_outside(Runnable& runnable);
  void add_timer(Timer& timer, TimePoint deadline) { service_.add_timer(timer, deadline); }
  bool cancel_timer(Timer& timer) { return service_.cancel_timer(timer); }
  bool wait_for_turns_in_progress(const TimePoint* deadline) KEYWAY_EXCLUDES(workers_mutex_);
  void begin_blocking();
  void end_blocking();
  void add_idle_listener(IdleListener& listener) KEYWAY_EXCLUDES(listeners_mutex_);
  void remove_idle_listener(IdleListener& listener) KEYWAY_EXCLUDES(listeners_mutex_);
  std::size_t max_threads() const { return max_threads_; }
  ThreadPoolStats stats() const KEYWAY_EXCLUDES(workers_mutex_);

 private:
  enum class Woken { kToSearch, kToEnd };

  // What a worker does.
  void run(Worker& me);
  bool run_one(Runnable& item, Turn& turn, Worker& me);
  bool search() const;
  Woken park(Worker& me, bool searching) KEYWAY_EXCLUDES(park_mutex_);
  Woken park_surplus(Worker& me) KEYWAY_EXCLUDES(park_mutex_);
  Woken sleep(Worker& me) KEYWAY_EXCLUDES(park_mutex_);
  void give_memory_back() KEYWAY_EXCLUDES(listeners_mutex_);
  bool leave_parked(Worker& me) KEYWAY_EXCLUDES(park_mutex_);
  bool end_if_surplus(Worker& me) KEYWAY_EXCLUDES(park_mutex_);
  void enlist_parked(Worker& me) KEYWAY_REQUIRES(park_mutex_);
  void delist_parked(Worker& me) KEYWAY_REQUIRES(park_mutex_);

  // Who decides how many work.
  void wake_if_needed();
  void wake(unsigned how_many, bool unless_searching) KEYWAY_EXCLUDES(park_mutex_);
  bool spawn() KEYWAY_EXCLUDES(workers_mutex_);
  bool tick();
  unsigned count_blocked() KEYWAY_EXCLUDES(workers_mutex_);
  void join_ended() KEYWAY_REQUIRES(workers_mutex_);
  bool join_all() KEYWAY_EXCLUDES(workers_mutex_);

  // Constant after construction.
  ThreadPool& pool_;
  const unsigned cores_;
  const unsigned base_threads_;
  const unsigned max_threads_;
  const Duration idle_timeout_;

  // Have their own synchronization.
  ReadyQueue ready_;
  PostsInProgress posts_;  // of other threads
  alignas(64) IdleProtocol idle_;
  std::atomic<unsigned> target_;  // how many may be active: a hint, so relaxed throughout
  detail::Atomic<bool> stopping_{false};
  alignas(64) TurnWatch turn_watch_;  // every turn reads it, and hardly anything writes it

  // The service thread's.
  alignas(64) int quiet_ticks_ = 0;
  PoolGrowth growth_;

  mutable Mutex<LockRank::kPoolWorkers> workers_mutex_;
  std::vector<std::shared_ptr<Worker>> workers_ KEYWAY_GUARDED_BY(workers_mutex_);
  bool closed_ KEYWAY_GUARDED_BY(workers_mutex_) = false;
  unsigned peak_threads_ KEYWAY_GUARDED_BY(workers_mutex_) = 0;
  std::uint64_t past_turns_ KEYWAY_GUARDED_BY(workers_mutex_) = 0;
  std::uint64_t past_parks_ KEYWAY_GUARDED_BY(workers_mutex_) = 0;

  Mutex<LockRank::kPoolListeners> listeners_mutex_;
  std::vector<IdleListener*> listeners_ KEYWAY_GUARDED_BY(listeners_mutex_);

  Mutex<LockRank::kPoolPark> park_mutex_;
  Worker* last_parked_ KEYWAY_GUARDED_BY(park_mutex_) = nullptr;

  ServiceThread service_;
};

namespace {

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
      service_([this] { return tick(); }, [this] { return !ready_.empty(); }) {
  for (unsigned i = 0; i < base_threads_; ++i) {
    KEYWAY_CHECK(spawn() || i > 0, "the system gives no thread at all");
  }
}

void ThreadPool::Impl::end_threads() {
  KEYWAY_CHECK(this_thread.pool != this,
               "a thread pool cannot be destroyed by its own thread, nor ended");
  stopping_.store(true, std::memory_order_seq_cst);
  while (!join_all()) {
    wake(max_threads_, /*unless_searching=*/false);
    std::this_thread::yield();
  }
  service_.end_thread();
}

bool ThreadPool::Impl::join_all() {
  MutexLock lock(workers_mutex_);
  join_ended();
  closed_ = workers_.empty();
  return closed_;
}

void ThreadPool::Impl::post_from_outside(Runnable& runnable) {
  if (this_thread.pool == this) return post(runnable);  // its own threads end before it does
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
  bool owes_wake = false;  // something was posted, and nobody looked whether others should come
  while (true) {
    Woken woken = Woken::kToSearch;
    if (Runnable* item = ready_.pop()) {
      const bool last_searcher = searching && idle_.stop_searching();
      searching = false;
      if ((last_searcher || owes_wake) && !ready_.empty()) wake_if_needed();
      owes_wake = run_one(*item, turn, me);
      // relaxed: a hint. More are active than should be when those who were blocked go on.
      if (!idle_.park_surplus(target_.load(std::memory_order_relaxed))) continue;
      if (owes_wake) wake_if_needed();
      woken = park_surplus(me);
    } else {
      if (!searching) searching = idle_.start_searching();
      owes_wake = false;  // others have it
      if (searching && search()) continue;
      woken = park(me, searching);
    }
    if (woken == Woken::kToEnd) break;
    searching = true;
  }
}

// True if the item is to run again: it was posted, and the caller must come for it, or wake others.
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
  // The last look, after it was said that this worker sleeps: see IdleProtocol.
  const bool stopping = stopping_.load(std::memory_order_seq_cst);
  if ((stopping || !ready_.empty()) && leave_parked(me)) {
    if (!stopping || !ready_.empty()) return Woken::kToSearch;
    idle_.stop_searching();
    idle_.thread_ended();
    return Woken::kToEnd;
  }
  return sleep(me);
}

// It counts as parked already. Others are active, so it need not look again.
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

// What this thread keeps goes back; and if nobody works any more, what all keep.
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
  if (!me.in_parked_list) return false;  // somebody wakes this worker just now
  delist_parked(me);
  // It searches again: those who posted meanwhile may have left more than one item to it.
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

// ---- who decides how many work

void ThreadPool::Impl::wake_if_needed() {
  const IdleCounts counts = idle_.counts();
  if (counts.searching > 0) return;
  const unsigned target = target_.load(std::memory_order_relaxed);
  if (counts.parked > 0 && counts.active() < target) {
    wake(target > base_threads_ ? std::min(kWakeAtOnce, target - counts.active()) : 1,
         /*unless_searching=*/true);
  }
  // Nobody is left to wake, or more than one per core work: see to it that somebody watches them.
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

bool ThreadPool::Impl::spawn() {
  MutexLock lock(workers_mutex_);
  join_ended();
  if (workers_.size() >= max_threads_ || closed_) return false;
  Worker& worker = *workers_.emplace_back(std::make_shared<Worker>());
  idle_.thread_started();
  try {
    worker.thread = std::thread([this, &worker] {
      BlockedProbe probe;
      {
        MutexLock started(workers_mutex_);
        worker.probe = &probe;
      }
      run(worker);
      MutexLock ended(workers_mutex_);
      worker.probe = nullptr;
      worker.ended = true;
    });
  } catch (const std::system_error&) {
    // The system has no thread to give. Those that are there go on.
    idle_.stop_searching();
    idle_.thread_ended();
    workers_.pop_back();
    return false;
  }
  peak_threads_ = std::max(peak_threads_, static_cast<unsigned>(workers_.size()));
  return true;
}

void ThreadPool::Impl::join_ended() {
  const auto first_ended = std::partition(workers_.begin(), workers_.end(),
                                          [](const auto& worker) { return !worker->ended; });
  for (auto worker = first_ended; worker != workers_.end(); ++worker) {
    (*worker)->thread.join();  // it has left its last critical section
    past_turns_ += (*worker)->turn_edges.load(std::memory_order_relaxed) / 2;
    past_parks_ += (*worker)->parks.load(std::memory_order_relaxed);
  }
  workers_.erase(first_ended, workers_.end());
}

// While work is ready and nobody looks for any: are the threads at work, or do they wait?
bool ThreadPool::Impl::tick() {
  const IdleCounts counts = idle_.counts();
  if (ready_.empty() || counts.searching > 0) return ++quiet_ticks_ < kQuietTicksBeforeSleep;
  quiet_ticks_ = 0;
  const unsigned active = counts.active();
  auto [target, more] = growth_.decide(active, std::min(active, count_blocked()));
  target_.store(target, std::memory_order_relaxed);
  const unsigned parked = std::min(more, counts.parked);
  if (parked > 0) wake(parked, /*unless_searching=*/false);
  for (more -= parked; more > 0 && spawn(); --more) {
  }
  return true;
}

unsigned ThreadPool::Impl::count_blocked() {
  MutexLock lock(workers_mutex_);
  const TimePoint now = std::chrono::steady_clock::now();
  unsigned blocked = 0;
  for (const auto& worker : workers_) {
    const bool in_turn = worker->turn_edges.load(std::memory_order_relaxed) % 2 == 1;
    if (!in_turn || worker->probe == nullptr) continue;
    if (worker->blocking_depth.load(std::memory_order_relaxed) > 0 || worker->probe->blocked(now)) {
      ++blocked;
    }
  }
  return blocked;
}

void ThreadPool::Impl::begin_blocking() {
  if (this_thread.pool != this) return;
  if (this_thread.worker->blocking_depth.fetch_add(1, std::memory_order_release) > 0) return;
  turn_watch_.changed();
  // This thread is about to wait. What it waits for may be ready and need a thread.
  const unsigned target = target_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (ready_.empty()) return;
  const IdleCounts counts = idle_.counts();
  if (counts.searching > 0 || counts.active() >= target) return;
  if (counts.parked > 0) {
    wake(1, /*unless_searching=*/true);
  } else {
    spawn();
  }
}

void ThreadPool::Impl::end_blocking() {
  if (this_thread.pool != this) return;
  if (this_thread.worker->blocking_depth.fetch_sub(1, std::memory_order_relaxed) > 1) return;
  unsigned target = target_.load(std::memory_order_relaxed);
  while (target > base_threads_ &&
         !target_.compare_exchange_weak(target, target - 1, std::memory_order_relaxed)) {
  }
}

void ThreadPool::Impl::add_idle_listener(IdleListener& listener) {
  MutexLock lock(listeners_mutex_);
  listeners_.push_back(&listener);
}

void ThreadPool::Impl::remove_idle_listener(IdleListener& listener) {
  MutexLock lock(listeners_mutex_);
  std::erase(listeners_, &listener);
}

// ---- what others ask

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

ThreadPoolStats ThreadPool::Impl::stats() const {
  const IdleCounts counts = idle_.counts();
  ThreadPoolStats stats{.threads = counts.threads, .parked = counts.parked};
  MutexLock lock(workers_mutex_);
  stats.peak_threads = peak_threads_;
  stats.turns = past_turns_;
  stats.parks = past_parks_;
  for (const auto& worker : workers_) {
    stats.turns += worker->turn_edges.load(std::memory_order_relaxed) / 2;
    stats.parks += worker->parks.load(std::memory_order_relaxed);
  }
  return stats;
}

ThreadPool& detail::background_pool() {
  // Never destroyed: executors with static storage may need it when the program ends.
  static ThreadPool* const pool = new ThreadPool({.threads = 1});
  return *pool;
}

namespace {

ThreadPoolOptions checked(ThreadPoolOptions options) {
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
ThreadPool::~ThreadPool() = default;
void ThreadPool::end_threads() { impl_->end_threads(); }
ThreadPoolStats ThreadPool::stats() const { return impl_->stats(); }
void ThreadPool::post(Runnable& runnable) { impl_->post(runnable); }
void ThreadPool::post_from_outside(Runnable& runnable) { impl_->post_from_outside(runnable); }
TimePoint ThreadPool::now() const { return std::chrono::steady_clock::now(); }
void ThreadPool::add_timer(Timer& timer, TimePoint deadline) { impl_->add_timer(timer, deadline); }
bool ThreadPool::cancel_timer(Timer& timer) { return impl_->cancel_timer(timer); }
bool ThreadPool::wait_for_turns_in_progress(const TimePoint* deadline) {
  return impl_->wait_for_turns_in_progress(deadline);
}
void ThreadPool::begin_blocking() { impl_->begin_blocking(); }
void ThreadPool::end_blocking() { impl_->end_blocking(); }
void ThreadPool::add_idle_listener(IdleListener& listener) { impl_->add_idle_listener(listener); }
void ThreadPool::remove_idle_listener(IdleListener& listener) {
  impl_->remove_idle_listener(listener);
}
std::size_t ThreadPool::max_threads() const { return impl_->max_threads(); }

}  // namespace keyway
