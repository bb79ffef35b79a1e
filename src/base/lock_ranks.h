// The order in which the library's locks are taken: the table of all ranks, outermost first.
//
// A thread may take a lock only if its rank comes later in this table than the ranks of all locks
// that the thread holds. Two locks of one rank are never held together. If every thread keeps to
// one order, no cycle of threads that wait for each other's locks can arise.
//
// A new lock gets a rank here, with a line that says what the lock protects and which locks may be
// taken while it is held. lock_order.h checks the order in debug and sanitizer builds.
#pragma once

#include <cstdint>

namespace keyway {

enum class LockRank : std::uint8_t {
  // The end of a SerialDispatcher's threads. Under it: everything below.
  kSerialShutdown,

  // ---- Locks under which user code runs by contract. The user code may call any part of the library, and
  // ---- its author sees to the order of these locks among each other: see is_users().

  // DeadLetterLog: one line is written at a time. Under it: everything below.
  kDeadLetterLog,
  // SqliteDatabase: one transaction at a time. Under it: everything below.
  kDatabase,
  // SqliteHandledIds: its reading connection. Under it: nothing of the library.
  kHandledIdsReader,

  // ---- stream

  // Why a pipeline ends. Under it: nothing.
  kPipelineFailure,
  // BatchLine: records that wait for a full batch. Under it: nothing.
  kBatchLine,

  // ---- groups and runtime: state of several lanes

  // GroupEngine: changes of the global limit. Under it: everything below.
  kGlobalLimit,
  // ThreadPool: its idle listeners. Under it: the listeners' calls, which free idle lanes.
  kPoolListeners,
  // GroupState: an adaptive limit. Under it: kAdmission, lanes.
  kAdaptiveLimit,
  // WaitGraph: all waits of the process. Under it: TaskOwner::need() and give_back_permit(), and
  // WantedLock::in_the_way_of(), hence groups' waits, lanes and shards of a LockTable; Scheduler::max_threads().
  kWaitGraph,
  // ConflationTable: tasks by their ids. Under it: nothing.
  kConflation,
  // Waits: the tasks of an executor that wait for others. Under it: kAdmission, lanes.
  kTaskWaits,
  // GroupEngine: paused groups. Under it: kAdmission, lanes.
  kPausedGroups,
  // Dispatch: turns kept by a pause or a rate. Under it: lanes, timers.
  kDispatch,
  // RoomLine: callers that wait for room in a queue. Under it: kAdmission, lanes.
  kRoomLine,
  // Admission: how many tasks could run. Under it: lanes.
  kAdmission,
  // GlobalGate: permits of the global limit. Under it: nothing.
  kGlobalGate,
  // QuietWatch: uses of an engine. Under it: nothing.
  kQuiet,
  // RunningTasks: one shard. Under it: nothing.
  kRunningTasks,

  // ---- lanes and locks by key

  // LaneTable: one shard. Under it: lanes, blocks.
  kLaneTable,
  // Lane: permits, and waiters that were taken in. Under it: kLaneIntake.
  kLaneDispatch,
  // Lane: waiters that have just entered. Under it: nothing.
  kLaneIntake,
  // LockTable: one shard. Under it: blocks.
  kLockTable,

  // ---- threads and timers: taken by post() and add_timer(), perhaps under the locks above

  // ExecutorScheduler: turns in progress. Under it: nothing.
  kExecutorScheduler,
  // ThreadPool: its threads. Under it: nothing.
  kPoolWorkers,
  // ThreadPool: parked threads. Under it: nothing.
  kPoolPark,
  // TimerQueue: timers by deadline. Under it: nothing.
  kTimerQueue,
  // ServiceThread: whether it must look again. Under it: nothing.
  kServiceThread,
  // ReadyQueue: its front. Under it: nothing.
  kReadyQueue,

  // ---- memory: taken by allocate_block(), perhaps under any lock above

  // BlockPool: free blocks of one size. Under it: kSlabs.
  kBlockDepot,
  // BlockPool: pages for blocks. Under it: nothing.
  kSlabs,

  // Any lock under which no other lock is taken.
  kLeaf,
};

// Whether the lock may be taken under any other such lock, also of the same rank: a transaction within one of
// another database, for example.
constexpr bool is_users(LockRank rank) {
  return rank == LockRank::kDeadLetterLog || rank == LockRank::kDatabase;
}

constexpr const char* name_of(LockRank rank) {
  switch (rank) {
    case LockRank::kSerialShutdown:
      return "SerialDispatcher's shutdown mutex";
    case LockRank::kDeadLetterLog:
      return "DeadLetterLog's mutex";
    case LockRank::kDatabase:
      return "SqliteDatabase's mutex";
    case LockRank::kHandledIdsReader:
      return "SqliteHandledIds' reader mutex";
    case LockRank::kPipelineFailure:
      return "Pipeline's failure mutex";
    case LockRank::kBatchLine:
      return "BatchLine's mutex";
    case LockRank::kGlobalLimit:
      return "GroupEngine's global limit";
    case LockRank::kPoolListeners:
      return "ThreadPool's listeners mutex";
    case LockRank::kWaitGraph:
      return "WaitGraph's mutex";
    case LockRank::kConflation:
      return "ConflationTable's mutex";
    case LockRank::kTaskWaits:
      return "Waits' mutex";
    case LockRank::kPausedGroups:
      return "GroupEngine's paused groups";
    case LockRank::kDispatch:
      return "Dispatch's mutex";
    case LockRank::kAdaptiveLimit:
      return "GroupState's mutex";
    case LockRank::kRoomLine:
      return "RoomLine's mutex";
    case LockRank::kAdmission:
      return "Admission's mutex";
    case LockRank::kRunningTasks:
      return "a shard of RunningTasks";
    case LockRank::kGlobalGate:
      return "GlobalGate's lock";
    case LockRank::kQuiet:
      return "QuietWatch's mutex";
    case LockRank::kLaneTable:
      return "a shard of LaneTable";
    case LockRank::kLaneDispatch:
      return "Lane::dispatch_";
    case LockRank::kLaneIntake:
      return "Lane::intake_";
    case LockRank::kLockTable:
      return "a shard of LockTable";
    case LockRank::kExecutorScheduler:
      return "ExecutorScheduler's mutex";
    case LockRank::kPoolWorkers:
      return "ThreadPool's workers mutex";
    case LockRank::kPoolPark:
      return "ThreadPool's park mutex";
    case LockRank::kTimerQueue:
      return "TimerQueue's mutex";
    case LockRank::kServiceThread:
      return "ServiceThread's mutex";
    case LockRank::kReadyQueue:
      return "ReadyQueue's lock";
    case LockRank::kBlockDepot:
      return "a depot of BlockPool";
    case LockRank::kSlabs:
      return "BlockPool's slabs";
    case LockRank::kLeaf:
      return "a leaf lock";
  }
  return "an unknown lock";
}

}  // namespace keyway
