#include "keyway/serial_dispatcher.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/quoted.h"
#include "groups/group_engine.h"
#include "keyway/detail/operation.h"
#include "runtime/service_thread.h"
#include "serial/serial_load.h"
#include "serial/worker_thread.h"

namespace keyway {

using detail::TaskCore;

namespace {

Error lane_full(std::string_view key, int capacity) {
  return {.code = ErrorCode::kRejected,
          .message = "work for key " + quoted(key) +
                     " was not taken: the queue of its lane is full, with " +
                     std::to_string(capacity) + "; try again later, or raise queue_capacity",
          .retryable = true,
          .group_key = std::string(key),
          .rejection = RejectionReason::kQueueFull};
}

// OnFull::kCallerRuns: the caller cannot wait for its turn, because its own work is in the lane.
Error full_for_own_work(std::string_view key, const SerialOptions& options, bool over_total) {
  return {
      .code = ErrorCode::kRejected,
      .message = "work for key " + quoted(key) + " was not taken: " +
                 (over_total ? "the queues of all lanes are full, with " +
                                   std::to_string(options.total_capacity) + " in total"
                             : "the queue of its lane is full, with " +
                                   std::to_string(options.queue_capacity)) +
                 ", and the work that posts it runs in the same lane, so it cannot wait for "
                 "its turn; dispatch() it, which runs it at once inside that work, or raise " +
                 (over_total ? "total_capacity" : "queue_capacity"),
      .retryable = true,
      .group_key = std::string(key),
      .rejection = over_total ? RejectionReason::kGlobalQueueFull : RejectionReason::kQueueFull};
}

Error shut_down(std::string_view key) {
  return {.code = ErrorCode::kShutdown,
          .message = "work for key " + quoted(key) +
                     " did not run: the dispatcher is shut down; dispatch before shutdown()",
          .group_key = std::string(key)};
}

GroupPolicy lane_policy(const SerialOptions& options, int running_in_all) {
  return {.default_group = {.max_concurrency = 1, .queue_threshold = options.queue_capacity},
          .global_max_in_flight = running_in_all};
}

// More come while some are blocked, up to the number of workers: see the gate of lane_policy().
ThreadPoolOptions pool_options(const SerialOptions& options) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  return {.threads = std::min(cores, static_cast<unsigned>(options.workers))};
}

SerialOptions checked(SerialOptions options) {
  if (const Result<void> valid = options.validate(); !valid) throw Exception(valid.error());
  return options;
}

}  // namespace

// One executor for all keys; or, sticky, one for each worker, with a single lane.
struct SerialDispatcher::Parts {
  Parts(const SerialOptions& options, const Scheduler* clock)
      : load(options.total_capacity, clock) {}

  struct Worker {
    std::string name;
    std::size_t hash;
    std::unique_ptr<GroupExecutor> executor;
  };

  template <class Visit>
  void for_each(Visit visit) const {
    for (const Worker& worker : workers) visit(*worker.executor);
  }

  // Also true in a foreign coroutine that awaited work and goes on on the thread of that work.
  bool owns_this_thread() const {
    const Scheduler* here = Scheduler::current();
    if (here == nullptr) return false;
    return here == pool || std::find(threads.begin(), threads.end(), here) != threads.end();
  }

  SerialLoad load;
  std::unique_ptr<ServiceThread> timers;  // of all worker threads
  std::vector<Worker> workers;            // per key: the only one's name is not used

  // The executors' own, which they keep. Constant once the dispatcher is made.
  ThreadPool* pool = nullptr;
  std::vector<WorkerThread*> threads;

  Mutex<LockRank::kSerialShutdown> shutdown_mutex;  // held by the thread that ends the others
};

SerialDispatcher::SerialDispatcher(SerialOptions options)
    : options_(checked(options)), parts_(std::make_unique<Parts>(options_, nullptr)) {
  if (options_.routing == Routing::kPerKey) {
    auto pool = std::make_unique<ThreadPool>(pool_options(options_));
    parts_->pool = pool.get();
    parts_->workers.push_back({{},
                               0,
                               std::unique_ptr<GroupExecutor>(new GroupExecutor(
                                   lane_policy(options_, options_.workers),
                                   std::unique_ptr<Scheduler>(std::move(pool))))});
    name_work_by_key();
    return;
  }
  parts_->timers = std::make_unique<ServiceThread>([] { return false; }, [] { return false; });
  std::vector<std::unique_ptr<Scheduler>> threads;
  for (int i = 0; i < options_.workers; ++i) {
    auto thread = std::make_unique<WorkerThread>(*parts_->timers);
    parts_->threads.push_back(thread.get());
    threads.push_back(std::move(thread));
  }
  add_workers(std::move(threads));
}

SerialDispatcher::SerialDispatcher(SerialOptions options,
                                   std::vector<std::unique_ptr<Scheduler>> workers)
    : options_(checked(options)), parts_(std::make_unique<Parts>(options_, workers.front().get())) {
  add_workers(std::move(workers));
}

void SerialDispatcher::add_workers(std::vector<std::unique_ptr<Scheduler>> schedulers) {
  for (std::unique_ptr<Scheduler>& scheduler : schedulers) {
    std::string name = "worker " + std::to_string(parts_->workers.size());
    const std::size_t hash = LaneTable::hash(name);
    parts_->workers.push_back({std::move(name), hash,
                               std::unique_ptr<GroupExecutor>(new GroupExecutor(
                                   lane_policy(options_, kUnlimited), std::move(scheduler)))});
  }
  name_work_by_key();
}

void SerialDispatcher::name_work_by_key() {
  parts_->for_each([](GroupExecutor& executor) { executor.engine_->name_tasks_by_key(); });
}

SerialDispatcher::SerialDispatcher(SerialOptions options, Scheduler& scheduler)
    : options_(checked(options)), parts_(std::make_unique<Parts>(options_, &scheduler)) {
  if (options_.routing != Routing::kPerKey) {
    throw Exception({ErrorCode::kInvalidArgument,
                     "routing is kSticky, on a scheduler of the caller's; a worker needs a thread "
                     "of its own: use kPerKey, or let the dispatcher make its threads"});
  }
  parts_->workers.push_back(
      {{}, 0, std::make_unique<GroupExecutor>(lane_policy(options_, options_.workers), scheduler)});
  name_work_by_key();
}

// All threads end before the first worker goes: each may just have woken work of another one.
SerialDispatcher::~SerialDispatcher() {
  // If it cannot wait, the executors' destructors do, and report if that wait could never end.
  shutdown(Duration::zero());
}

// ---- submitting

SerialDispatcher::Target SerialDispatcher::target_of(std::string_view key) const {
  const std::size_t hash = detail::require_key(key, "key");
  const std::vector<Parts::Worker>& workers = parts_->workers;
  if (options_.routing == Routing::kPerKey) {
    return {workers.front().executor.get(), key, {}, hash, key};
  }
  const Parts::Worker& worker = workers[hash % workers.size()];
  return {worker.executor.get(), worker.name, key, worker.hash, key};
}

bool SerialDispatcher::is_inside(const Target& target) {
  return target.executor->engine_->is_inside(target.lane);
}

detail::QueuePlace SerialDispatcher::take_place() { return detail::QueuePlace(parts_->load); }

Error SerialDispatcher::all_full(std::string_view key) {
  parts_->load.count_rejected();
  return {.code = ErrorCode::kRejected,
          .message = "work for key " + quoted(key) +
                     " was not taken: the queues of all lanes are full, with " +
                     std::to_string(options_.total_capacity) +
                     " in total; try again later, or raise total_capacity",
          .retryable = true,
          .group_key = std::string(key),
          .rejection = RejectionReason::kGlobalQueueFull};
}

Result<void> SerialDispatcher::submit(const Target& target, TaskCore& task, bool over_total,
                                      bool waits) {
  using CallerRuns = GroupEngine::CallerRuns;
  GroupEngine& engine = *target.executor->engine_;
  try {
    if (!caller_runs() && !waits) {
      const GroupEngine::Rejected rejected =
          engine.enqueue(task, target.hash, nullptr, GroupEngine::IfFull::kTurnAway);
      return rejected ? lane_full(target.key, options_.queue_capacity) : Result<void>();
    }
    task.retain();
    const detail::CoreReference hold(&task);
    CallerRuns runs = CallerRuns::kNever;
    if (caller_runs()) runs = over_total ? CallerRuns::kAlways : CallerRuns::kIfFull;
    Result<void> called = engine.call(task, target.hash, runs, waits);
    if (called) return {};
    switch (called.error().code) {
      case ErrorCode::kRejected:
        return caller_runs() ? full_for_own_work(target.key, options_, over_total)
                             : lane_full(target.key, options_.queue_capacity);
      case ErrorCode::kShutdown:
        return shut_down(target.key);
      default:
        return called;
    }
  } catch (const Exception& error) {
    if (error.code() != ErrorCode::kShutdown) throw;
    return shut_down(target.key);
  }
}

void SerialDispatcher::execute_inside(const Target& target, TaskCore& task) {
  target.executor->engine_->run_inside(task);
}

Scheduler& SerialDispatcher::scheduler_of(const Target& target) {
  return target.executor->engine_->scheduler();
}

detail::TaskContext SerialDispatcher::part_of_current_task(Scheduler& scheduler,
                                                           std::stop_token stop) {
  const detail::Operation& whole = detail::Operation::current();
  detail::TaskContext context{&scheduler, std::move(stop),
                              detail::TaskOperation(&whole, whole.task(), &scheduler)};
  context.operation.confine();
  return context;
}

Error SerialDispatcher::expired(std::string_view key) {
  return {ErrorCode::kExpired,
          "work for key " + quoted(key) +
              " did not run: its turn did not come in time; give it longer to begin, or "
              "dispatch less for its lane",
          /*retryable=*/true};
}

// ---- the end, and what others ask

bool SerialDispatcher::shutdown(Duration timeout) {
  timeout = std::max(timeout, Duration::zero());  // from a smaller one no time could be subtracted
  const TimePoint began = parts_->load.waits().now();
  bool inside = parts_->owns_this_thread();
  parts_->for_each([&](GroupExecutor& executor) {
    inside = inside || executor.engine_->runs_a_task_here();
    executor.engine_->stop_taking();
  });
  bool drained = !inside;
  parts_->for_each([&](GroupExecutor& executor) {
    const Duration left = timeout - (parts_->load.waits().now() - began);
    drained =
        drained && executor.engine_->try_drain(std::max(left, Duration::zero())).value_or(false);
  });
  if (!drained) parts_->for_each([](GroupExecutor& executor) { executor.shutdown(); });
  if (inside) return false;
  bool ended = true;  // false: work waits for the caller
  parts_->for_each([&](GroupExecutor& executor) {
    ended = ended && executor.engine_->try_drain(Duration::max()).ok();
  });
  if (!ended) return false;
  MutexLock lock(parts_->shutdown_mutex);
  if (parts_->pool != nullptr) parts_->pool->end_threads();
  for (WorkerThread* thread : parts_->threads) thread->end_thread();
  if (parts_->timers != nullptr) parts_->timers->end_thread();
  return drained;
}

SerialStats SerialDispatcher::stats() const {
  const std::uint64_t by_total = parts_->load.rejected();
  SerialStats sum{
      .submitted = by_total, .rejected = by_total, .waits = parts_->load.waits().summary()};
  parts_->for_each([&](const GroupExecutor& executor) {
    const GroupStats stats = executor.stats();
    sum.waiting += stats.waiting;
    sum.running += stats.running;
    sum.callers_in_line += executor.waiting_for_room();
    sum.submitted += stats.submitted;
    sum.succeeded += stats.succeeded;
    sum.failed += stats.failed;
    sum.cancelled += stats.cancelled;
    sum.expired += stats.expired;
    sum.rejected += stats.rejected;
  });
  return sum;
}

Explanation SerialDispatcher::explain(std::string_view key) const {
  const Target target = target_of(key);
  Explanation why = target.executor->explain(target.lane);
  why.limits_are_fixed = true;
  why.explained = options_.routing == Routing::kPerKey ? Explained::kKey : Explained::kWorker;
  return why;
}

}  // namespace keyway
