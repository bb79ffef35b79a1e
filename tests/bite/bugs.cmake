# The bugs that `make bite` plants in a copy of the library, one at a time, and that the tests must find. Each is what a
# tired engineer could write: one or two lines that look right.
#
# plant_bug(<name> <description> <file> <original> <replacement> [AND <original> <replacement>]...)

# ---- limits

plant_bug(lane_limit_plus_one "a lane hands out one permit more than its limit"
  src/lanes/lane.cc
  [[if (running_ >= limit_now()) {]]
  [[if (planted("lane_limit_plus_one") ? running_ > limit_now() : running_ >= limit_now()) {]]
  AND
  [[last_permit = running_ + 1 == limit_;]]
  [[last_permit = running_ + (planted("lane_limit_plus_one") ? 0 : 1) == limit_;]])

plant_bug(gate_limit_plus_one "the global limit lets one task more in"
  src/groups/global_gate.cc
  [[
std::int64_t age) {
  if (in_flight_ < limit_) {]]
  [[
std::int64_t age) {
  if (planted("gate_limit_plus_one") ? in_flight_ <= limit_ : in_flight_ < limit_) {]])

plant_bug(token_not_used "a task that starts gives its token of the group's rate back"
  src/groups/group_engine.cc
  [[Dispatch::Admitted::kWithToken && !begins]]
  [[Dispatch::Admitted::kWithToken && (!begins || planted("token_not_used"))]])

plant_bug(shared_lock_enters "a shared lock is granted while another operation holds the key exclusively"
  src/locks/lock_table.cc
  [[return mode == LockMode::kExclusive || hold.exclusive > 0;]]
  [[return mode == LockMode::kExclusive || (hold.exclusive > 0 && !planted("shared_lock_enters"));]])

# ---- order

plant_bug(newcomers_overtake "tasks that have just come are put in front of those taken in before"
  src/lanes/lane.cc
  [[taken_in_.append(inbox_);]]
  [[if (planted("newcomers_overtake")) inbox_.append(taken_in_);
  taken_in_.append(inbox_);]])

plant_bug(lock_barging "a new caller takes a free key although others wait in line for it"
  src/locks/lock_table.cc
  [[const bool its_turn = entry->plain || entry->waiters.empty() ||]]
  [[const bool its_turn = planted("lock_barging") || entry->plain || entry->waiters.empty() ||]])

plant_bug(timer_heap_order "removing a timer from the middle of the heap leaves the heap out of order"
  src/runtime/timer_queue.cc
  [[sift_up(index);
  sift_down(]]
  [[if (!planted("timer_heap_order")) sift_up(index);
  sift_down(]])

# ---- completions

plant_bug(completed_twice "a task's continuation is called twice"
  src/runtime/task_core.cc
  [[if ((state & kContinuation) != 0) continuation_->task_done();]]
  [[if ((state & kContinuation) != 0) continuation_->task_done();
  if ((state & kContinuation) != 0 && planted("completed_twice")) continuation_->task_done();]])

plant_bug(stopped_and_completed "a stop request removes the continuation of a task that is just done"
  src/runtime/task_core.cc
  [[if ((state & kDone) != 0) return false;]]
  [[if ((state & kDone) != 0 && !planted("stopped_and_completed")) return false;]])

plant_bug(listener_before_next "a worker takes the lane's next task before it calls the listener for the last one"
  src/groups/group_engine.cc
  [[return policy_.listener == nullptr && status]]
  [[return (policy_.listener == nullptr || planted("listener_before_next")) && status]])

plant_bug(expiry_not_started "the timer of a task with start_within is not started"
  src/groups/group_engine.cc
  [[if (task.extras().expires) {]]
  [[if (task.extras().expires && !planted("expiry_not_started")) {]])

plant_bug(expiry_before_entry "a task whose timer fires before the task is in its lane does not expire"
  src/groups/group_engine.cc
  [[if (scheduler_.now() >= task.extras().expires_at) expire(task);]]
  [[if (scheduler_.now() >= task.extras().expires_at && !planted("expiry_before_entry")) expire(task);]])

# ---- lost wake-ups

plant_bug(quiet_announced_early "a wait for quiet announces itself before it has read the word it sleeps on"
  src/groups/quiet_watch.h
  [[const std::uint32_t value = watch.word_.load(std::memory_order_seq_cst);]]
  [[if (planted("quiet_announced_early")) watch.waiting_.store(true, std::memory_order_seq_cst);
        const std::uint32_t value = watch.word_.load(std::memory_order_seq_cst);
        if (planted("quiet_announced_early")) return value;]])

plant_bug(pool_no_last_look "a worker goes to sleep without a last look into the ready queue"
  src/runtime/thread_pool.cc
  [[if ((stopping || !ready_.empty()) && leave_parked(me)) {]]
  [[if ((stopping || (!ready_.empty() && !planted("pool_no_last_look"))) && leave_parked(me)) {]])

plant_bug(last_searcher_unnoticed "the last searching worker finds work and does not wake another"
  src/runtime/idle_protocol.h
  [[return add(-kSearching).searching == 1;]]
  [[return add(-kSearching).searching == 1 && !planted("last_searcher_unnoticed");]])

plant_bug(room_not_tried_again "a submit that found no room does not try again after it has joined the line"
  src/groups/intake.cc
  [[room_line_.add({&task, &lane, &waiter});
  made_room(lane, aftermath);]]
  [[room_line_.add({&task, &lane, &waiter});
  if (!planted("room_not_tried_again")) made_room(lane, aftermath);]])

plant_bug(gate_raise_serves_one "a raised global limit starts one waiting group only"
  src/groups/global_gate.cc
  [[while (in_flight_ < limit_ && !line_.empty()) served]]
  [[while (in_flight_ < limit_ && !line_.empty() && !(planted("gate_raise_serves_one") && !served.lanes.empty())) served]])

plant_bug(lock_withdraw_silent "a lock's waiter that gives up does not let those behind it go on"
  src/locks/lock_table.cc
  [[news = pass_on(shard, *waiter.entry);]]
  [[if (!planted("lock_withdraw_silent")) news = pass_on(shard, *waiter.entry);]])

plant_bug(pump_check_then_store "a pump goes idle by a check and a store, and a wake between them is lost"
  src/stream/pump.h
  [[if (state_.compare_exchange_strong(expected, State::kIdle)) return;]]
  [[if (planted("pump_check_then_store") && state_.load() == State::kRunning) return state_.store(State::kIdle);
    if (state_.compare_exchange_strong(expected, State::kIdle)) return;]])

plant_bug(pump_woken_early "a record wakes the pump when it settles, before its task has given the permit back"
  src/stream/pipeline_item.h
  [[if (engine_ != nullptr) engine_->wake();]]
  [[if (engine_ != nullptr && !planted("pump_woken_early")) engine_->wake();]]
  AND
  [[std::exchange(engine_, nullptr)->count_out(*partition_);]]
  [[engine_->count_out(*partition_);
    if (planted("pump_woken_early")) engine_->wake();
    engine_ = nullptr;]])

# ---- permits

plant_bug(permit_of_cancelled "a worker that finds its only task cancelled keeps the global permit"
  src/groups/group_engine.cc
  [[if (taken.waiter == nullptr) {]]
  [[if (taken.waiter == nullptr) {
      if (planted("permit_of_cancelled")) return;]])

plant_bug(permit_while_held "a lane that waits for a token or for resume() keeps the global permit it was served"
  src/groups/dispatch.cc
  [[if (!std::exchange(lane.has_global_permit, false)) return false;]]
  [[if (planted("permit_while_held") || !std::exchange(lane.has_global_permit, false)) return false;]])

plant_bug(serial_place_lost "a call that is refused keeps its place in the dispatcher's total capacity"
  src/serial/serial_load.h
  [[give_back_place();
    return false;]]
  [[if (!planted("serial_place_lost")) give_back_place();
    return false;]])

# ---- waits

plant_bug(cycle_not_reported "a wait is accepted although its target waits too"
  src/runtime/wait_graph.cc
  [[if (waiters_.contains(edge.ends_with)) return false;]]
  [[if (waiters_.contains(edge.ends_with) && !planted("cycle_not_reported")) return false;]])

# ---- lifetimes

plant_bug(lane_freed_while_away "a lane is freed while a task of it waits for another one"
  src/lanes/lane.cc
  [[if (running_ > 0 || turn_out_ || away() > 0) return false;]]
  [[if (running_ > 0 || turn_out_ || (away() > 0 && !planted("lane_freed_while_away"))) return false;]])

plant_bug(lane_freed_while_pinned "a lane is freed while it is pinned"
  src/lanes/lane_table.cc
  [[if (lane->pins_ > 0) return false;]]
  [[if (lane->pins_ > 0 && !planted("lane_freed_while_pinned")) return false;]])

plant_bug(timer_cancel_returns_early "cancelling a timer does not wait until it has fired on the timer thread"
  src/runtime/timer_queue.cc
  [[while (firing_ == &timer &&]]
  [[while (!planted("timer_cancel_returns_early") && firing_ == &timer &&]])

# ---- memory order

plant_bug(resume_relaxed "resume() publishes with a relaxed store"
  src/groups/dispatch.cc
  [[paused_.store(false, std::memory_order_release);]]
  [[paused_.store(false, planted("resume_relaxed") ? std::memory_order_relaxed : std::memory_order_release);]])

# ---- records

plant_bug(retry_counts_as_done "a commit passes a record that waits for its next attempt"
  src/stream/ledger.cc
  [[while (size_ > 0 && at(0).settled()) pop_front();]]
  [[while (size_ > 0 && (at(0).settled() || (planted("retry_counts_as_done") && at(0).state() == State::kRetrying))) pop_front();]])

plant_bug(dead_letter_lost "a record is done although its dead letter was not stored"
  src/stream/pipeline_record.cc
  [[if (!stored) return fail(stored.error());]]
  [[if (!stored && !planted("dead_letter_lost")) return fail(stored.error());]])
