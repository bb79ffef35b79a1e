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

plant_bug(token_taken_late "tokens are looked at before take() and taken after it, when the turn may be another worker's"
  src/groups/group_engine.cc
  [[if (rated) table_.pin(lane);
  const LaneTake taken = lane.take();]]
  [[const bool late = planted("token_taken_late") && admitted == Dispatch::Admitted::kWithToken;
  if (late) dispatch_.give_token_back(lane, aftermath);
  if (rated) table_.pin(lane);
  const LaneTake taken = lane.take();
  if (late) {
    GroupState& state = GroupState::of(lane);
    SpinGuard guard(state.tokens_lock);
    (void)state.tokens->try_take(scheduler_.now());
  }]])

plant_bug(shared_lock_enters "a shared lock is granted while another operation holds the key exclusively"
  src/locks/lock_table.cc
  [[return mode == LockMode::kExclusive || hold.exclusive > 0;]]
  [[return mode == LockMode::kExclusive || (hold.exclusive > 0 && !planted("shared_lock_enters"));]])

plant_bug(older_limit_told_last "of two changes of a limit at once, the older one may be what the lane is told last"
  src/lanes/lane.cc
  [[if (limits.version < newest) return {};]]
  [[if (limits.version < newest && !planted("older_limit_told_last")) return {};]])

plant_bug(limits_newer_than_they_are "limits that are looked up count as newer than a change meanwhile"
  src/groups/limit_book.cc
  [[.version = version,]]
  [[.version = planted("limits_newer_than_they_are") ? version_of(hash_key(key)).load() : version,]])

plant_bug(lane_made_with_old_limits "a lane that is made while its limit changes has the limit of before"
  src/lanes/lane_table.cc
  [[if (!owner_.are_current(limits, hash)) return nullptr;]]
  [[if (!owner_.are_current(limits, hash) && !planted("lane_made_with_old_limits")) return nullptr;]])

plant_bug(threshold_lost "a limit that adapts takes the queue threshold back"
  src/groups/group_control.cc
  [[{.running = limit}, LimitPart::kRunning);]]
  [[{.running = limit}, planted("threshold_lost") ? LimitPart::kBoth : LimitPart::kRunning);]])

plant_bug(learnt_limit_lost "set_limits() sets an adaptive limit back to where it began"
  src/groups/intake.cc
  [[set_limits(lane, limits, lane.limits_of_policy())]]
  [[set_limits(lane, limits, planted("learnt_limit_lost") ? LimitPart::kBoth : lane.limits_of_policy())]])

plant_bug(sure_room_kept "a lower queue threshold does not hold for those who may enter without a look"
  src/lanes/lane.cc
  [[careful_ = ranks_ != nullptr || limits.waiting != kNoLimit;
    }
    sure_room_ = 0;]]
  [[careful_ = ranks_ != nullptr || limits.waiting != kNoLimit;
    }
    if (!planted("sure_room_kept")) sure_room_ = 0;]])

plant_bug(window_plus_256 "a pipeline reads 256 records more than the window"
  src/stream/pipeline_engine.cc
  [[over(partition.ledger.window(), options_.max_window);]]
  [[over(partition.ledger.window(), options_.max_window + (planted("window_plus_256") ? 256 : 0));]])

plant_bug(timeout_of_each_worker "shutdown() of a sticky dispatcher gives each worker the whole timeout"
  src/serial/serial_dispatcher.cc
  [[const Duration left = timeout - (parts_->load.waits().now() - began);]]
  [[const Duration left = timeout - (planted("timeout_of_each_worker") ? Duration::zero() : parts_->load.waits().now() - began);]])

# ---- order

plant_bug(lane_before_returner "the global gate serves a lane before a task that returns from a wait"
  src/groups/global_gate.cc
  [[if (!returners_.empty()) return {.returner]]
  [[if (!returners_.empty() && !(planted("lane_before_returner") && !line_.empty())) return {.returner]])

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

plant_bug(posted_under_lock "resume_group() posts a lane while it holds a mutex"
  src/groups/group_control.cc
  [[if (intake_.change(*lane, [&] { return lane->set_paused(false); })) aftermath.post(*lane);]]
  [[if (intake_.change(*lane, [&] { return lane->set_paused(false); })) {
      planted("posted_under_lock") ? scheduler_.post(*lane) : aftermath.post(*lane);
    }]])

plant_bug(expiry_not_started "the timer of a task with start_within is not started"
  src/groups/group_engine.cc
  [[if (task.extras().expires) {]]
  [[if (task.extras().expires && !planted("expiry_not_started")) {]])

plant_bug(expiry_before_entry "a task whose timer fires before the task is in its lane does not expire"
  src/groups/group_engine.cc
  [[if (scheduler_.now() >= task.extras().expires_at) expire(task);]]
  [[if (scheduler_.now() >= task.extras().expires_at && !planted("expiry_before_entry")) expire(task);]])

plant_bug(caller_runs_after_shutdown "a submitter runs its task although the executor has been shut down meanwhile"
  src/groups/group_unrun.cc
  [[if (table_.closed()) refuse_closed(task);
  if (if_full]]
  [[if (table_.closed() && !planted("caller_runs_after_shutdown")) refuse_closed(task);
  if (if_full]])

plant_bug(stop_missed_at_start "a task that begins while its group is shut down is not asked to stop"
  src/groups/group_engine.cc
  [[lane != nullptr ? lane->stop_wanted(number)]]
  [[lane != nullptr ? !planted("stop_missed_at_start") && lane->stop_wanted(number)]])

plant_bug(superseded_runs "a task that a newer one supersedes before it is in its lane runs all the same"
  src/groups/group_engine.cc
  [[if (task.extras().superseded.load(std::memory_order_relaxed)) withdraw]]
  [[if (!planted("superseded_runs") && task.extras().superseded.load(std::memory_order_relaxed)) withdraw]])

plant_bug(cancels_front_first "execute_all() cancels its tasks from the first to the last, so others start in between"
  src/groups/joined_tasks.cc
  [[void JoinedTasks::cancel_back_to_front() {]]
  [[void JoinedTasks::cancel_back_to_front() {
  if (planted("cancels_front_first")) std::reverse(tasks_.begin(), tasks_.end());]])

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

plant_bug(sticky_worker_no_last_look "a sticky worker goes to sleep without a last look at what was posted"
  src/serial/worker_sleep.h
  [[if (stopping || has_work()) {]]
  [[if (stopping || (has_work() && !planted("sticky_worker_no_last_look"))) {]])

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
  [[serve_lanes(served.lanes);]]
  [[while (can_serve() && !(planted("gate_raise_serves_one") && !served.lanes.empty())) served.lanes.push_back(&serve_first());]])

plant_bug(thread_for_a_while_not_seen "no task gives its permits back while all threads of its pool are blocked, although one of them goes on"
  src/runtime/wait_search.cc
  [[if (search.stuck_threads.at(&scheduler) < scheduler.max_threads()) return true;]]
  [[if (planted("thread_for_a_while_not_seen") ? !threads_are_scarce(&scheduler) : search.stuck_threads.at(&scheduler) < scheduler.max_threads()) return true;]])

plant_bug(last_thread_gives_back "a task that blocks the last thread of its pool gives its permits back, and has no thread for its return"
  src/runtime/wait_search.cc
  [[if (!leave_lane_if_it_can_return(*holder)) {]]
  [[if (!leave_lane_if_it_can_return(*holder) && !planted("last_thread_gives_back")) {]])

plant_bug(freed_thread_not_seen "a task that could not give its permits back without a thread does not when a thread comes free"
  src/runtime/wait_graph.cc
  [[if (edge.thread_node_ != nullptr) have_a_thread]]
  [[if (edge.thread_node_ != nullptr && !planted("freed_thread_not_seen")) have_a_thread]])

plant_bug(submitter_does_not_wait "the graph does not know that a submitter waits for a coroutine that it starts"
  src/runtime/task.cc
  [[operation.is_awaited = true;
  const CoroutineOnThread]]
  [[if (planted("submitter_does_not_wait")) return call_as(operation, call, argument);
  operation.is_awaited = true;
  const CoroutineOnThread]])

plant_bug(plain_thread_can_be_stopped "a stop of a branch is thought to end the wait of a thread outside of schedulers"
  src/runtime/wait_graph.h
  [[bool blocks_a_thread() const { return blocks_; }]]
  [[bool blocks_a_thread() const { return planted("plain_thread_can_be_stopped") ? thread_ != nullptr : blocks_; }]])

plant_bug(gate_keeps_served_permit "a returning task does not take the global permit of a lane whose turn has not run"
  src/groups/global_gate.cc
  [[while (in_flight_ >= limit_ && taken_ < served_) {]]
  [[while (in_flight_ >= limit_ && taken_ < served_ && !planted("gate_keeps_served_permit")) {]])

plant_bug(gate_permit_used_twice "a lane uses the global permit that a returning task has taken from it"
  src/groups/global_gate.cc
  [[if (taken_ == 0) return true;]]
  [[if (taken_ == 0 || planted("gate_permit_used_twice")) return true;]])

plant_bug(gate_share_lost "a group's lane loses its share while its turn is on its way"
  src/groups/gate_line.h
  [[if (was_away) state.served_until]]
  [[if (was_away || planted("gate_share_lost")) state.served_until]])

plant_bug(shutdown_looks_at_all "shutdown_group() looks at the running tasks of all groups"
  src/groups/running_tasks.h
  [[lower_bound({group, nullptr});]]
  [[lower_bound({planted("shutdown_looks_at_all") ? 0 : group, nullptr});]]
  AND
  [[if (key && place->first != group) break;]]
  [[if (key && place->first != group && !planted("shutdown_looks_at_all")) break;]])

plant_bug(callers_times_lost "what the caller runs has no running time in group_times()"
  src/groups/group_engine.cc
  [[const TimePoint ended = scheduler_.now();
  if (watches_ends_) watch_end(task, status, ended);
  const QuietWatch]]
  [[const TimePoint ended = scheduler_.now();
  if (watches_ends_ && !planted("callers_times_lost")) watch_end(task, status, ended);
  const QuietWatch]])

plant_bug(weight_without_maximum "a weight may be so large that a turn's tasks or the lane's share overflow"
  src/groups/group_policy.cc
  [[if (limits.weight.value_or(1) > kMaxWeight) {]]
  [[if (limits.weight.value_or(1) > kMaxWeight && !planted("weight_without_maximum")) {]])

plant_bug(turn_takes_more_than_its_share "by shares a turn goes on with tasks that do not count in the share of its lane"
  src/groups/group_engine.cc
  [[rated || dispatch_.by_shares();]]
  [[rated || (dispatch_.by_shares() && !planted("turn_takes_more_than_its_share"));]])

plant_bug(gate_coming_not_awaited "a free permit goes to the next lane that comes, whatever the weights"
  src/groups/gate_line.h
  [[return coming_.empty() ||]]
  [[return coming_.empty() || planted("gate_coming_not_awaited") ||]])

plant_bug(gate_turn_end_untold "a group without further tasks still holds lighter groups back at the gate"
  src/groups/group_engine.cc
  [[dispatch_.turn_over(lane, aftermath);]]
  [[if (!planted("gate_turn_end_untold")) dispatch_.turn_over(lane, aftermath);]])

plant_bug(gate_held_turn_awaited "a group that waits for a token or for resume() holds lighter groups back at the gate"
  src/groups/dispatch.cc
  [[turn_over(lane, aftermath);
  if (gate_ == nullptr]]
  [[if (!planted("gate_held_turn_awaited")) turn_over(lane, aftermath);
  if (gate_ == nullptr]])

plant_bug(gate_turn_over_serves_none "the end of a turn at the gate does not serve the lanes that stood behind it"
  src/groups/global_gate.cc
  [[line_.not_coming(lane);
  serve_lanes(served);]]
  [[line_.not_coming(lane);
  if (!planted("gate_turn_over_serves_none")) serve_lanes(served);]])

plant_bug(place_lets_nobody_in "a task that starts does not let a submitter into its place in the global queue"
  src/groups/intake.cc
  [[task.set_has_place(false);
  }
  made_global_room(aftermath);]]
  [[task.set_has_place(false);
  }
  if (!planted("place_lets_nobody_in")) made_global_room(aftermath);]])

plant_bug(replaced_not_posted "a cheaper task that takes the place of a costly one is not told to a worker"
  src/lanes/lane.cc
  [[insert_ranked(newcomer);
  return {.withdrawn = true, .post_turn = stalled_ && place_turn()};]]
  [[insert_ranked(newcomer);
  return {.withdrawn = true, .post_turn = stalled_ && place_turn() && !planted("replaced_not_posted")};]])

plant_bug(token_back_unnoticed "a lane that waits for a token does not hear that one is given back"
  src/groups/dispatch.cc
  [[state.tokens->give_back();
  }
  unpark(lane, aftermath);]]
  [[state.tokens->give_back();
  }
  if (!planted("token_back_unnoticed")) unpark(lane, aftermath);]])

plant_bug(lock_refusal_silent "a lock's waiter that is refused does not let those behind it go on"
  src/locks/lock_table.cc
  [[waiter.refusal = std::make_unique<Error>(std::move(error));
    news]]
  [[waiter.refusal = std::make_unique<Error>(std::move(error));
    if (!planted("lock_refusal_silent")) news]])

plant_bug(lock_withdraw_silent "a lock's waiter that gives up does not let those behind it go on"
  src/locks/lock_table.cc
  [[waiter.cancelled = cancels;
  news]]
  [[waiter.cancelled = cancels;
  if (!planted("lock_withdraw_silent")) news]])

plant_bug(pump_check_then_store "a pump goes idle by a check and a store, and a wake between them is lost"
  src/stream/pump.h
  [[if (state_.compare_exchange_strong(expected, State::kIdle)) return;]]
  [[if (planted("pump_check_then_store") && state_.load() == State::kRunning) return state_.store(State::kIdle);
    if (state_.compare_exchange_strong(expected, State::kIdle)) return;]])

plant_bug(pump_posts_after_its_end "a wake-up after a pump's last step posts it"
  src/stream/pump.h
  [[if (state == State::kEnded) return;]]
  [[if (state == State::kEnded && !planted("pump_posts_after_its_end")) return;]])

plant_bug(pump_forgets_its_end "a wake-up during a pump's last step is followed by another step"
  src/stream/pump.h
  [[if (!step()) {]]
  [[if (!step() && !(planted("pump_forgets_its_end") && state_.load() == State::kWantedAgain)) {]])

plant_bug(end_before_watch_missed "the end of a task between the refusal of a record and the watch of its key is missed"
  src/stream/pipeline_engine.cc
  [[(ended_keys_.watch(key) &&]]
  [[(ended_keys_.watch(key) && !planted("end_before_watch_missed") &&]])

plant_bug(resumed_key_untold "the pump does not hear that a key was resumed"
  src/stream/pipeline_run.cc
  [[ended_keys_.ended(hash_key(group));]]
  [[if (!planted("resumed_key_untold")) ended_keys_.ended(hash_key(group));]])

plant_bug(paused_by_name "pause_key() and resume_key() take a key for the name of its group"
  src/stream/pipeline_run.cc
  [[const std::string group = group_of(key);]]
  [[const std::string group = planted("paused_by_name") ? std::string(key) : group_of(key);]])

plant_bug(explained_by_name "explain() takes a key for the name of its group"
  src/stream/pipeline_engine.h
  [[return executor_->explain(group_of(key));]]
  [[return executor_->explain(planted("explained_by_name") ? std::string(key) : group_of(key));]])

plant_bug(limits_by_name "the limits of a key count for the group of that name"
  src/stream/pipeline_engine.cc
  [[by_group[group_of_key(key)] = limits;]]
  [[by_group[planted("limits_by_name") ? key : group_of_key(key)] = limits;]])

plant_bug(ends_lost_while_awaiting "ends of tasks are forgotten while a commit is awaited"
  src/stream/pipeline_engine.cc
  [[if (awaits_commit_) return false;
  bool any = false;
  for (const std::size_t key]]
  [[if (awaits_commit_ && planted("ends_lost_while_awaiting")) ended_keys_.take();
  if (awaits_commit_) return false;
  bool any = false;
  for (const std::size_t key]])

plant_bug(pump_woken_early "a record wakes the pump when it settles, before its task has given the permit back"
  src/stream/pipeline_item.h
  [[engine_->ended_keys_.ended(key_);
    engine_->wake();]]
  [[if (planted("pump_woken_early")) return;
    engine_->ended_keys_.ended(key_);
    engine_->wake();]]
  AND
  [[std::exchange(engine_, nullptr)->count_out(*partition_);]]
  [[engine_->count_out(*partition_);
    if (planted("pump_woken_early")) {
      engine_->ended_keys_.ended(key_);
      engine_->wake();
    }
    engine_ = nullptr;]])

plant_bug(await_ignores_stop "a coroutine that awaits a task or room does not end its wait on a stop request"
  src/groups/group_wait.cc
  [[if (phase != kArmed || !give_up()) return;]]
  [[if (phase != kArmed || planted("await_ignores_stop") || !give_up()) return;]])

plant_bug(latest_call_first "of the groups that wait for the global queue, the one with the latest call is let in first"
  src/groups/room_line.h
  [[first(candidates_.begin()->second);]]
  [[first((planted("latest_call_first") ? std::prev(candidates_.end()) : candidates_.begin())->second);]])

plant_bug(line_overtaken "a submit takes the place in the global queue that is about to go to one that waits in another group"
  src/groups/intake.cc
  [[    stays = let_in(nullptr, aftermath);]]
  [[    stays = let_in(nullptr, aftermath) && !planted("line_overtaken");]])

plant_bug(line_not_tried "a submit stands behind a line that is about to be let in"
  src/groups/intake.cc
  [[let_in(nullptr, aftermath) && !planted("line_overtaken");]]
  [[(planted("line_not_tried") || let_in(nullptr, aftermath)) && !planted("line_overtaken");]])

plant_bug(global_limit_lets_nobody_in "a raised global limit does not let in the submitters that wait for room"
  src/groups/group_control.cc
  [[intake_.made_global_room(aftermath);]]
  [[if (!planted("global_limit_lets_nobody_in")) intake_.made_global_room(aftermath);]])

plant_bug(giving_up_lets_nobody_in "a submitter that gives up does not let in a cheaper one behind it"
  src/groups/intake.cc
  [[made_room(*entry.lane, aftermath);]]
  [[if (!planted("giving_up_lets_nobody_in")) made_room(*entry.lane, aftermath);]])

plant_bug(waiting_lets_nobody_in "a task that waits for its own group does not let in the submitters that wait for room"
  src/groups/waits.cc
  [[if (leaves_gate) dispatch_.leave_gate(lane, aftermath);
  intake_]]
  [[if (leaves_gate) dispatch_.leave_gate(lane, aftermath);
  if (!planted("waiting_lets_nobody_in")) intake_]])

plant_bug(group_end_lets_nobody_in "a group that is shut down does not let in the submitters that wait for room"
  src/groups/group_control.cc
  [[endings, aftermath);
    intake_.made_room(*lane, aftermath);]]
  [[endings, aftermath);
    if (!planted("group_end_lets_nobody_in")) intake_.made_room(*lane, aftermath);]])

plant_bug(cancel_not_heard_by_drain "a drain of a group does not hear at once that the last task was cancelled"
  src/groups/group_unrun.cc
  [[intake_.made_room(*lane, aftermath);
    quiet_.changed();]]
  [[intake_.made_room(*lane, aftermath);
    if (!planted("cancel_not_heard_by_drain")) quiet_.changed();]])

plant_bug(group_end_not_heard_by_drain "a drain of a group does not hear at once that the group was shut down"
  src/groups/group_control.cc
  [[quiet_.changed();
  }
  table_.unpin(*lane);]]
  [[if (!planted("group_end_not_heard_by_drain")) quiet_.changed();
  }
  table_.unpin(*lane);]])

plant_bug(pause_keeps_returner "a task that began before pause() and comes back from a wait stays until resume()"
  src/groups/dispatch.cc
  [[if (!paused_.load(std::memory_order_relaxed) || lane.somebody_returns()) return false;]]
  [[if (!paused_.load(std::memory_order_relaxed) || (lane.somebody_returns() && !planted("pause_keeps_returner"))) return false;]])

plant_bug(pause_during_the_end "a group that is paused while the executor is shut down holds its tasks back"
  src/groups/group_control.cc
  [[is_new = !no_more_pauses_ && ]]
  [[is_new = (!no_more_pauses_ || planted("pause_during_the_end")) && ]])

plant_bug(drain_waits_for_held "a drain waits for a lane without tasks whose turn a pause keeps"
  src/lanes/lane.cc
  [[entered += entered_ - (rare_ == nullptr ? 0 : rare_->came_back);
  return]]
  [[entered += entered_ - (rare_ == nullptr ? 0 : rare_->came_back);
  if (turn_out_ && planted("drain_waits_for_held")) return false;
  return]])

plant_bug(lane_lock_order "a look at the next waiter takes the two locks of its lane in the wrong order"
  src/lanes/lane.h
  [[    SpinGuard dispatch(dispatch_);
    SpinGuard intake(intake_);
    const Waiter* next = first_in_line();
]]
  [[    if (planted("lane_lock_order")) {
      SpinGuard intake(intake_);
      SpinGuard dispatch(dispatch_);
      const Waiter* next = first_in_line();
      return next != nullptr ? std::optional<std::int64_t>(look(*next)) : std::nullopt;
    }
    SpinGuard dispatch(dispatch_);
    SpinGuard intake(intake_);
    const Waiter* next = first_in_line();
]])

# ---- permits

plant_bug(permit_of_cancelled "a worker that finds its only task cancelled keeps the global permit"
  src/groups/group_engine.cc
  [[if (taken.waiter == nullptr) give_up_lane]]
  [[if (taken.waiter == nullptr && !planted("permit_of_cancelled")) give_up_lane]])

plant_bug(permit_while_held "a lane that waits for a token or for resume() keeps the global permit it was served"
  src/groups/dispatch.cc
  [[if (gate_ == nullptr || !gate_->claim_unused(lane)) return false;]]
  [[if (planted("permit_while_held") || gate_ == nullptr || !gate_->claim_unused(lane)) return false;]])

plant_bug(serial_place_lost "a call that is refused keeps its place in the dispatcher's total capacity"
  include/keyway/detail/queued_call.h
  [[if (load_ != nullptr && kind_ == Kind::kCounted) give_back();]]
  [[if (load_ != nullptr && kind_ == Kind::kCounted && !planted("serial_place_lost")) give_back();]])

plant_bug(refused_call_takes_a_place "a call that finds the dispatcher full counts until it is refused"
  src/serial/serial_load.h
  [[if (waiting >= capacity_) return false;]]
  [[if (planted("refused_call_takes_a_place")) {
        if (waiting_.fetch_add(1, std::memory_order_relaxed) < capacity_) return true;
        give_back_place();
        return false;
      }
      if (waiting >= capacity_) return false;]])

plant_bug(place_of_expired "a task that expires keeps its place in the global queue"
  src/groups/group_unrun.cc
  [[intake_.give_up_place(task, aftermath);
  task.set_ending(true);]]
  [[if (status != TaskStatus::kExpired || !planted("place_of_expired")) intake_.give_up_place(task, aftermath);
  task.set_ending(true);]])

plant_bug(place_given_up_twice "a task that a newer one replaces gives up the place in the global queue that the newer one has"
  src/groups/group_conflation.cc
  [[(withdrawn ? other : task).set_has_place(false);]]
  [[if (!withdrawn || !planted("place_given_up_twice")) (withdrawn ? other : task).set_has_place(false);]])

plant_bug(place_seen_early "a task that replaces one which is just entering does not take over its place in the global queue"
  src/groups/group_conflation.cc
  [[const Lane::Withdrawn replaced = intake_]]
  [[const bool early = other.has_place();
    const Lane::Withdrawn replaced = intake_]]
  AND
  [[task.set_has_place(other.has_place());]]
  [[task.set_has_place(planted("place_seen_early") ? early : other.has_place());]])

plant_bug(bytes_of_revoked "records that were set aside keep their bytes when their partition is revoked"
  src/stream/pipeline_engine.h
  [[bytes_.fetch_sub(held.record.value.size());]]
  [[if (!planted("bytes_of_revoked")) bytes_.fetch_sub(held.record.value.size());]])

plant_bug(lowest_partition_first "of the records of a key that are set aside, those of the lowest partition go first"
  src/stream/pipeline_engine.cc
  [[before->second.push_back(std::move(held));]]
  [[planted("lowest_partition_first") ? void(before->second.insert(std::ranges::upper_bound(before->second, held.record.partition, {}, [](const Partition::Held& one) { return one.record.partition; }), std::move(held))) : before->second.push_back(std::move(held));]])

plant_bug(given_back_uncounted "a waiting task that gives its permit back for a lower limit is counted wrongly in the global queue"
  src/groups/waits.cc
  [[if (std::exchange(task.lane_back, true)) return nullptr;
  count(task);]]
  [[if (std::exchange(task.lane_back, true)) return nullptr;
  if (!planted("given_back_uncounted")) count(task);]])

plant_bug(returner_uncounted "a task that returns to a paused lane is counted when it ends, and not when it starts again"
  src/lanes/lane.cc
  [[const std::uint64_t able = paused_ ? returners : waiting();]]
  [[const std::uint64_t able = paused_ ? (planted("returner_uncounted") ? 0 : returners) : waiting();]])

plant_bug(gate_without_limit "a task of which another branch waits uses the gate although there is no global limit"
  src/groups/waits.cc
  [[const bool leaves_gate = dispatch_.has_gate() && !]]
  [[const bool leaves_gate = (dispatch_.has_gate() || (planted("gate_without_limit") && task.open > 1)) && !]])

plant_bug(branch_keeps_permits "a branch that ends keeps the permits that another branch's wait needs"
  src/groups/waits.cc
  [[--task->branches;
    leaves_gate]]
  [[if (!planted("branch_keeps_permits")) --task->branches;
    leaves_gate]])

plant_bug(return_closes_cycle "a task that comes back for one branch may leave tasks waiting for each other"
  src/groups/waits.cc
  [[if (still_waits && lane_was_away) intake_.room_shrank(waiter]]
  [[if (still_waits && lane_was_away && !planted("return_closes_cycle")) intake_.room_shrank(waiter]])

plant_bug(branch_runs_without_permits "a task gives its permits back for the wait of one branch while another one runs"
  src/groups/waits.cc
  [[if (task.open == 0 || task.runs()) return false;]]
  [[if (task.open == 0 || (task.runs() && !planted("branch_runs_without_permits"))) return false;]])

plant_bug(permit_taken_from_branch "a lower limit takes the permit of a task of which a branch runs"
  src/groups/waits.cc
  [[if (task.runs()) return nullptr;]]
  [[if (task.runs() && !planted("permit_taken_from_branch")) return nullptr;]])

plant_bug(kept_permit_not_told "the graph does not hear that a wait has ended before its task gave the permit back"
  src/groups/waits.cc
  [[is_news = WaitGraph::instance().came_back(task.waiter]]
  [[is_news = !planted("kept_permit_not_told") && WaitGraph::instance().came_back(task.waiter]])

plant_bug(starter_counts_as_running "a thread that blocks in the first branch keeps the permits, because the others have not started"
  src/groups/waits.cc
  [[const int below = wait.blocks ?]]
  [[const int below = wait.blocks && !planted("starter_counts_as_running") ?]])

plant_bug(sleep_keeps_permits "a branch that sleeps counts as one that runs"
  src/runtime/task.cc
  [[if (context.operation.parent() != nullptr && needs_permits_) {]]
  [[if (context.operation.parent() != nullptr && needs_permits_ && !planted("sleep_keeps_permits")) {]])

plant_bug(locks_of_ended_branch "the locks of an ended branch belong to nobody"
  src/runtime/operation.cc
  [[const std::uint64_t whole = parent_->id();]]
  [[if (planted("locks_of_ended_branch")) return;
  const std::uint64_t whole = parent_->id();]])

plant_bug(passed_lock_closes_cycle "an ended branch whose lock closes a cycle is not noticed"
  src/runtime/wait_search.cc
  [[while (const auto refused = refuse_a_wait_for(operation)) to_tell]]
  [[while (const auto refused = planted("passed_lock_closes_cycle") ? std::nullopt : refuse_a_wait_for(operation)) to_tell]])

plant_bug(sibling_stays_in_line "a branch that waits for the lock of an ended sibling stays in line"
  src/locks/lock_table.cc
  [[if (!reenters(*entry, waiter.operation)) continue;]]
  [[if (planted("sibling_stays_in_line") || !reenters(*entry, waiter.operation)) continue;]])

plant_bug(captures_without_scope "a wait in a destructor of captures does not belong to their task"
  src/groups/group_unrun.cc
  [[const EndingScope scope(task);
    task]]
  [[std::optional<EndingScope> scope;
    if (!planted("captures_without_scope")) scope.emplace(task);
    task]])

plant_bug(handler_without_scope "a wait in a rejection handler does not belong to its task"
  src/groups/group_unrun.cc
  [[const EndingScope scope(task);
    try]]
  [[std::optional<EndingScope> scope;
    if (!planted("handler_without_scope")) scope.emplace(task);
    try]])

plant_bug(wait_keeps_global_permit "a task on whose stack another one waits keeps its global permit"
  src/runtime/linked_wait.cc
  [[if (holder == nullptr) holder = task;]]
  [[if (holder == nullptr && !(planted("wait_keeps_global_permit") && !permitless.empty())) holder = task;]])

plant_bug(await_of_innermost "an await counts for the innermost task on the stack only"
  src/runtime/linked_wait.cc
  [[for (const Operation* one = &operation; one != nullptr; one = one->parent()) {
    tasks.add]]
  [[for (const Operation* one = &operation; one != nullptr; one = planted("await_of_innermost") ? nullptr : one->parent()) {
    tasks.add]])

plant_bug(blocked_wait_of_innermost "a blocking wait counts for the innermost task on the stack only"
  src/runtime/linked_wait.cc
  [[scope = scope->outer()) tasks]]
  [[scope = planted("blocked_wait_of_innermost") ? nullptr : scope->outer()) tasks]])

plant_bug(permitless_not_checked "the waits of tasks without permits are linked, but not checked"
  src/runtime/wait_search.cc
  [[const bool is_alone = others == nullptr || others->all().empty();]]
  [[const bool is_alone = planted("permitless_not_checked") || others == nullptr || others->all().empty();]])

plant_bug(cycle_not_reported "a wait is accepted although its target waits too"
  src/runtime/wait_search.cc
  [[if (waiters_.contains(edge.task)) return false;]]
  [[if (waiters_.contains(edge.task) && !planted("cycle_not_reported")) return false;]])

plant_bug(return_not_waited_for "a task that wants its permit back counts as one that runs"
  src/runtime/wait_search.cc
  [[if (Edge* returns = return_after(edge)) node]]
  [[if (Edge* returns = planted("return_not_waited_for") ? nullptr : return_after(edge)) node]])

plant_bug(thread_free_too_early "a thread with several waits counts as free when one of them can end"
  src/runtime/wait_search.h
  [[--thread->second == 0) {]]
  [[(--thread->second == 0 || planted("thread_free_too_early"))) {]])

plant_bug(line_not_waited_for "a wait for a lock does not depend on the waiters in front of it in the line"
  src/locks/lock_table.cc
  [[: add_those_in_front(]]
  [[: planted("line_not_waited_for") ? InTheWay::kThoseInConflict : add_those_in_front(]])

plant_bug(holder_waits_for_line "a holder that wants its lock in another mode depends on the waiters in the line"
  src/locks/lock_table.cc
  [[const InTheWay holders = reenters(]]
  [[const InTheWay holders = !planted("holder_waits_for_line") && reenters(]])

plant_bug(thread_without_edge_ends_chain "a wait depends on the holders through a waiter that is not in the graph"
  src/locks/lock_table.cc
  [[(is_added && ahead.in_graph)]]
  [[(is_added && (ahead.in_graph || planted("thread_without_edge_ends_chain")))]])

plant_bug(lock_holder_needs_no_thread "a wait for a lock does not leave a thread for the coroutine that holds the lock"
  src/runtime/wait_search.cc
  [[if (Scheduler* scheduler = detail::scheduler_that_resumes(holder)) {]]
  [[if (Scheduler* scheduler = planted("lock_holder_needs_no_thread") ? nullptr : detail::scheduler_that_resumes(holder)) {]])

plant_bug(done_holder_needs_thread "a lock that a finished task passed on still needs a thread of the task's scheduler"
  src/runtime/operation.cc
  [[if (known.task->done() || !known.task->operations().is_coroutine) return nullptr;]]
  [[if ((known.task->done() && !planted("done_holder_needs_thread")) || !known.task->operations().is_coroutine) return nullptr;]])

plant_bug(gate_return_needs_no_thread "a task that gave its global permit back needs no thread to have it again"
  src/runtime/wait_search.cc
  [[return need.thread || owner.has_gate();]]
  [[return need.thread || (owner.has_gate() && !planted("gate_return_needs_no_thread"));]])

plant_bug(second_wait_not_told "a branch that waits again does not tell the graph that its task gives permits back once more"
  src/groups/waits.cc
  [[lane_lost_room = leaves_again && WaitGraph]]
  [[lane_lost_room = leaves_again && !planted("second_wait_not_told") && WaitGraph]])

plant_bug(drain_not_in_graph "a drain that finds no tasks at its first look is not in the graph"
  src/groups/group_control.cc
  [[if (Result<void> begun = wait.begin(all, /*bounded=*/deadline != nullptr); !begun) {
    return begun.error();
  }
  WaitEnd end{};]]
  [[if (planted("drain_not_in_graph") && all.is_over()) {
  } else if (Result<void> begun = wait.begin(all, /*bounded=*/deadline != nullptr); !begun) {
    return begun.error();
  }
  WaitEnd end{};]])

plant_bug(drain_needs_thread "a drain of a group without tasks needs a thread"
  src/groups/group_control.cc
  [[if (!is_over()) return &engine_.scheduler_;]]
  [[if (!is_over() || planted("drain_needs_thread")) return &engine_.scheduler_;]])

plant_bug(drain_goes_on "a drain that the graph took for over goes on when a task is submitted before its thread wakes"
  src/groups/group_control.cc
  [[if (counts_as_over_.load(std::memory_order_acquire)) return true;]]
  [[if (counts_as_over_.load(std::memory_order_acquire) && !planted("drain_goes_on")) return true;]])

plant_bug(refused_wait_counts "a wait counts as open while the graph checks it, so another branch gives a permit back for it"
  src/groups/waits.cc
  [[if (in_own_lane) ++task->in_check_in_lane;]]
  [[if (in_own_lane) ++task->in_check_in_lane;
    if (planted("refused_wait_counts")) {
      ++task->open;
      if (in_own_lane) ++task->open_in_lane;
    }]]
  AND
  [[if (pause.kind != Pause::Kind::kSleep) ++task.open;
    if (pause.in_own_lane) ++task.open_in_lane;]]
  [[if (!planted("refused_wait_counts")) {
      if (pause.kind != Pause::Kind::kSleep) ++task.open;
      if (pause.in_own_lane) ++task.open_in_lane;
    }]]
  AND
  [[end_check(task, in_own_lane);
    forget_if_over]]
  [[end_check(task, in_own_lane);
    if (planted("refused_wait_counts")) {
      --task.open;
      if (in_own_lane) --task.open_in_lane;
    }
    forget_if_over]])

plant_bug(each_unchecked_wait_searches "execute_all() in a task looks at all its waits when each of them begins"
  src/groups/waits.cc
  [[if (wait.is_last_of_unchecked) intake_]]
  [[if (wait.is_last_of_unchecked || (planted("each_unchecked_wait_searches") && !wait.can_refuse)) intake_]])

plant_bug(costly_closes_cycle "a costly task that overtakes others may leave tasks waiting for each other"
  src/groups/intake.cc
  [[aftermath.post(lane);
  if (costly]]
  [[aftermath.post(lane);
  if (!planted("costly_closes_cycle") && costly]])

plant_bug(costly_from_line_closes_cycle "a costly task that has waited for room may leave tasks waiting for each other"
  src/groups/intake.cc
  [[*entry.task);
  if (costly]]
  [[*entry.task);
  if (!planted("costly_from_line_closes_cycle") && costly]])

plant_bug(costly_return_closes_cycle "a costly task that comes back may leave tasks waiting for each other"
  src/groups/waits.cc
  [[if (costly]]
  [[if (!planted("costly_return_closes_cycle") && costly]])

plant_bug(lower_limit_closes_cycle "a limit that is set lower may leave tasks waiting for each other"
  src/groups/intake.cc
  [[if (changed.lowered) room_shrank]]
  [[if (changed.lowered && !planted("lower_limit_closes_cycle")) room_shrank]])

plant_bug(timeout_keeps_thread "a wait with a timeout counts as keeping its thread for ever"
  src/runtime/wait_search.h
  [[if (thread != open_in_thread.end() && ]]
  [[if (thread != open_in_thread.end() && !planted("timeout_keeps_thread") && ]])

plant_bug(rivals_ignored "an await in a branch of when_any() counts as endless although another branch can end"
  src/runtime/wait_search.cc
  [[if (edge.blocks_a_thread()) return false;]]
  [[if (edge.blocks_a_thread() || planted("rivals_ignored")) return false;]])

plant_bug(announced_gives_back "execute_all() in a task counts as having given a permit back while its listeners wait"
  src/runtime/wait_graph.cc
  [[node.gives_back_later() ? node.announced_give_back : 0;]]
  [[node.gives_back_later() && !planted("announced_gives_back") ? node.announced_give_back : 0;]])

plant_bug(done_wait_begins "execute_all() gives permits back for a task that is done"
  src/runtime/wait_graph.cc
  [[if (edge.task != nullptr && edge.task->done()) return false;]]
  [[if (edge.task != nullptr && edge.task->done() && !planted("done_wait_begins")) return false;]])

plant_bug(return_behind_costly "a costly task that returns does not take permits from waiters if a costly task is queued"
  src/lanes/lane_ranks.cc
  [[(returns ? ranks_->returning : ranks_->queued).largest();]]
  [[(returns && !planted("return_behind_costly") ? ranks_->returning : ranks_->queued).largest();]])

plant_bug(free_rival_waits "a branch of when_any() may wait for ever although other waits count on its end"
  src/runtime/wait_search.cc
  [[if (edge.operation->is_in_race()) return false;]]
  [[if (edge.operation->is_in_race() && !planted("free_rival_waits")) return false;]])

plant_bug(sibling_locks_ignored "a branch may wait for ever although another branch of its task holds a lock"
  src/runtime/wait_search.cc
  [[parts_lock = parts_lock || one->parts_lock();]]
  [[parts_lock = parts_lock || (one->parts_lock() && !planted("sibling_locks_ignored"));]])

plant_bug(stopped_through_sync_wait "a coroutine in sync_wait() counts as one that another branch of when_any() can stop"
  src/runtime/wait_search.cc
  [[if (branch->is_awaited || branch->task()]]
  [[if ((branch->is_awaited && !planted("stopped_through_sync_wait")) || branch->task()]])

plant_bug(blocked_run_ignored "a lock of a coroutine in sync_wait() counts as soon released although another branch blocks the thread"
  src/runtime/wait_search.cc
  [[if (part->blocks_a_thread()) depend_on(node, *part);]]
  [[if (part->blocks_a_thread() && !planted("blocked_run_ignored")) depend_on(node, *part);]])

plant_bug(same_name_same_lane "groups of the same name in two executors count as one lane"
  src/runtime/wait_graph.cc
  [[return hash_key(key) ^ (address * 0x9e3779b97f4a7c15U);]]
  [[return planted("same_name_same_lane") ? hash_key(key) : hash_key(key) ^ (address * 0x9e3779b97f4a7c15U);]])

plant_bug(inline_run_counts_twice "a coroutine in sync_wait() counts as a second branch that waits"
  src/groups/waits.cc
  [[wait.is_first && (wait.blocks || !wait.operation.is_confined());]]
  [[wait.is_first && (wait.blocks || planted("inline_run_counts_twice") || !wait.operation.is_confined());]])

plant_bug(buried_branch_returns "a task takes its permit back for a coroutine in sync_wait() whose thread another branch blocks"
  src/groups/waits.cc
  [[pause.confined ? aftermath.wake(wakeup) : task.over.push_back(&wakeup);]]
  [[pause.confined && !planted("buried_branch_returns") ? aftermath.wake(wakeup) : task.over.push_back(&wakeup);]]
  AND
  [[if (pause.confined) return forget_if_over(task);]]
  [[if (pause.confined && !planted("buried_branch_returns")) return forget_if_over(task);]])

plant_bug(announced_return_unknown "execute_all() does not know that its task needs a thread to return"
  src/groups/blocked_wait.cc
  [[edge_.leaves_gate = waiter.owner().has_gate();]]
  [[edge_.leaves_gate = waiter.owner().has_gate() && !planted("announced_return_unknown");]])

plant_bug(one_lock_passes_on "of the locks of a branch that ends, its operation counts one"
  src/runtime/operation.cc
  [[parent_->locks_held_.fetch_add(locks, std::memory_order_relaxed);]]
  [[parent_->locks_held_.fetch_add(planted("one_lock_passes_on") ? 1 : locks, std::memory_order_relaxed);]])

plant_bug(one_cycle_refused "a lock that passes on and closes two cycles has one of them refused"
  src/runtime/wait_search.cc
  [[to_tell.push_back(*refused);]]
  [[{
      to_tell.push_back(*refused);
      if (planted("one_cycle_refused")) break;
    }]])

# ---- lifetimes

plant_bug(lane_freed_while_away "a lane is freed while a task of it waits for another one"
  src/lanes/lane.cc
  [[if (running_ > 0 || turn_out_ || away() > 0) return false;]]
  [[if (running_ > 0 || turn_out_ || (away() > 0 && !planted("lane_freed_while_away"))) return false;]])

plant_bug(lane_freed_while_pinned "a lane is freed while it is pinned"
  src/lanes/lane_table.cc
  [[if (lane->pins_ > 0) return false;]]
  [[if (lane->pins_ > 0 && !planted("lane_freed_while_pinned")) return false;]])

plant_bug(foreign_coroutine_in_release "a foreign coroutine that gets a lock goes on within the release"
  src/locks/async_lock.cc
  [[  } else {
    resumption_.post(]]
  [[  } else if (planted("foreign_coroutine_in_release")) {
    coroutine_.resume();
  } else {
    resumption_.post(]])

plant_bug(foreign_coroutine_is_its_thread "what a foreign coroutine locks belongs to the thread that resumes it"
  src/runtime/task.cc
  [[const CurrentTaskScope own(nullptr);]]
  [[std::optional<CurrentTaskScope> own;
  if (!planted("foreign_coroutine_is_its_thread")) own.emplace(nullptr);]])

plant_bug(unlimited_timeout_is_a_bound "a wait with a timeout that never ends counts as one that ends by itself"
  src/runtime/time_after.h
  [[*deadline != TimePoint::max() ?]]
  [[(*deadline != TimePoint::max() || planted("unlimited_timeout_is_a_bound")) ?]])

plant_bug(destroyed_waiter_stays_in_line "a coroutine that is destroyed while it waits for a lock stays in line"
  src/locks/async_lock.cc
  [[  if (coroutine_ == nullptr) return;]]
  [[  if (coroutine_ == nullptr || planted("destroyed_waiter_stays_in_line")) return;]])

plant_bug(log_of_destroyed_locks "a release that logs reads the KeyLocks, which may be gone"
  src/locks/key_locks.cc
  [[guard.mode_});
  log(*options, "Lock released for key: ", key);]]
  [[guard.mode_});
  planted("log_of_destroyed_locks") ? log("Lock released for key: ", key) : log(*options, "Lock released for key: ", key);]])

plant_bug(users_clock_under_a_lock "an explanation asks a user's scheduler for the time under a lock"
  include/keyway/detail/lock_waiter.h
  [[scheduler->is_driven() ?]]
  [[(scheduler->is_driven() || planted("users_clock_under_a_lock")) ?]])

plant_bug(id_before_entry "an operation has an id before it is known by it"
  src/runtime/operation.cc
  [[  Operations& operations = Operations::instance();
  MutexLock lock(operations.mutex);
  // relaxed]]
  [[  if (planted("id_before_entry")) id_.store(drawn, std::memory_order_relaxed);
  Operations& operations = Operations::instance();
  MutexLock lock(operations.mutex);
  // relaxed]]
  AND
  [[id != 0) return id;
  operations]]
  [[id != 0 && id != drawn) return id;
  operations]])

plant_bug(destroyed_awaiter_is_told "a coroutine that is destroyed while it awaits a task or room is told of the end of the wait"
  src/groups/group_wait.cc
  [[if (coroutine_ == nullptr) return false;]]
  [[if (coroutine_ == nullptr || planted("destroyed_awaiter_is_told")) return false;]])

plant_bug(join_reads_engine "a join that is over reads the engine, which may be gone"
  src/groups/group_wait.cc
  [[  wait.end(driven);]]
  [[  wait.end(planted("join_reads_engine") ? (scheduler_.is_driven() ? &scheduler_ : nullptr) : driven);]])

plant_bug(join_reads_engine_late "a join reads the engine after the last look whether its task is done"
  src/groups/group_wait.cc
  [[  const WaitEnd end =
      block(task, {.deadline = deadline, .stop = std::move(stop), .scheduler = driven});]]
  [[  const WaitEnd end =
      block(task, {.deadline = deadline, .stop = std::move(stop), .scheduler = planted("join_reads_engine_late") && scheduler_.is_driven() ? &scheduler_ : driven});]])

plant_bug(close_looks_once "an executor is destroyed although a turn in progress has begun to use it again"
  src/groups/group_control.cc
  [[} while (!is_quiet());]]
  [[} while (!is_quiet() && !planted("close_looks_once"));]])

plant_bug(timer_cancel_returns_early "cancelling a timer does not wait until it has fired on the timer thread"
  src/runtime/timer_queue.cc
  [[if (firing_ != &timer ||]]
  [[if (planted("timer_cancel_returns_early") || firing_ != &timer ||]])

plant_bug(timer_cancel_looks_once "cancelling a timer while it fires misses that its fire() has added it again"
  src/runtime/timer_queue.cc
  [[fired_.wait(mutex_);]]
  [[fired_.wait(mutex_);
    if (planted("timer_cancel_looks_once")) return was_queued;]])

plant_bug(coroutine_ends_unsearched "a coroutine outside of tasks ends while a search uses its scheduler"
  src/runtime/operation.cc
  [[if (task() == nullptr && !is_confined()) WaitGraph]]
  [[if (task() == nullptr && !is_confined() && !planted("coroutine_ends_unsearched")) WaitGraph]])

plant_bug(two_ids_drawn "two branches that draw the id of their operation at once have different ones"
  src/runtime/operation.cc
  [[if (const std::uint64_t id = id_.load(std::memory_order_relaxed); id != 0 && id != drawn) return id;]]
  [[if (const std::uint64_t id = id_.load(std::memory_order_relaxed); id != 0 && id != drawn) return planted("two_ids_drawn") ? drawn : id;]])

plant_bug(negative_timeout_overflows "shutdown() subtracts from a negative timeout until it is positive"
  src/serial/serial_dispatcher.cc
  [[timeout = std::max(timeout, Duration::zero());]]
  [[if (!planted("negative_timeout_overflows")) timeout = std::max(timeout, Duration::zero());]])

plant_bug(ended_parts_walked "a task that ends with locks looks at all ended parts"
  src/runtime/operation.cc
  [[const bool is_part = (id() & kPartBit) != 0;]]
  [[const bool is_part = (id() & kPartBit) != 0;
  if (locks_held() > 0 && planted("ended_parts_walked")) {
    Parts& parts = Parts::instance();
    MutexLock lock(parts.mutex);
    for (auto& [part, ended] : parts.ended) {
      if (ended.whole == id()) ended.whole = 0;
    }
  }]])

plant_bug(left_locks_of_nobody "a lock in the result that a listener is told of belongs to nobody"
  src/runtime/operation.cc
  [[if (leaves_locks && operations]]
  [[if (leaves_locks && !planted("left_locks_of_nobody") && operations]])

plant_bug(left_locks_not_seen "a wait of a listener counts as one on which no wait for a lock in the result depends"
  src/runtime/wait_search.cc
  [[LeftLocks::has(*edge.waiter)) return]]
  [[LeftLocks::has(*edge.waiter) && !planted("left_locks_not_seen")) return]])

plant_bug(left_locks_stay "an operation whose locks lie in a result is named as the task when that is published"
  src/runtime/operation.cc
  [[operations.by_id.erase(found->second);]]
  [[if (!planted("left_locks_stay")) operations.by_id.erase(found->second);]])

plant_bug(rivals_counted_late "each check of a wait in a branch of when_any() looks at the waits of all branches"
  src/runtime/wait_search.cc
  [[if (waits_of_whole.size() < branch->race_branches) return]]
  [[if (waits_of_whole.size() < branch->race_branches && !planted("rivals_counted_late")) return]])

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

plant_bug(read_before_open "a partition that is paused before the pipeline runs lets the pump read a source that is not open"
  src/stream/pipeline_stats.cc
  [[if (is_open_.load(std::memory_order_acquire)) wake();]]
  [[if (is_open_.load(std::memory_order_acquire) || planted("read_before_open")) wake();]])

plant_bug(dead_letter_lost "a record is done although its dead letter was not stored"
  src/stream/pipeline_record.cc
  [[if (!stored) return fail(stored.error());]]
  [[if (!stored && !planted("dead_letter_lost")) return fail(stored.error());]])

plant_bug(failed_store_overtaken "records of a key go on behind one that a store has failed for"
  src/stream/pipeline_record.cc
  [[halts_ = true;  // records of]]
  [[if (!planted("failed_store_overtaken")) halts_ = true;  // records of]])

plant_bug(handled_before_commit "a record that may come at most once is handled before it is committed"
  src/stream/pipeline_engine.cc
  [[awaits_commit_ = at_most_once;]]
  [[awaits_commit_ = at_most_once && !planted("handled_before_commit");]])

plant_bug(bytes_unbounded "a pipeline reads on although as many bytes are in flight as may be"
  src/stream/pipeline_engine.cc
  [[bytes_full_ = !bytes_free;]]
  [[bytes_full_ = !bytes_free && !planted("bytes_unbounded");]])

plant_bug(retry_takes_no_token "only the first attempt of a record counts for the rate"
  src/stream/pipeline_record.cc
  [[if (options_.rate) {
      const Duration wait]]
  [[if (options_.rate && !(planted("retry_takes_no_token") && tries.number > 0)) {
      const Duration wait]])

plant_bug(parked_key_goes_on "records of a key whose record is dead are handled although the key is to be parked"
  src/stream/pipeline_record.cc
  [[any_parked_ = true;]]
  [[any_parked_ = !planted("parked_key_goes_on");]])

plant_bug(pause_holds_none "a paused key holds nothing back"
  src/stream/pipeline_run.cc
  [[paused_groups_.insert(group);]]
  [[if (!planted("pause_holds_none")) paused_groups_.insert(group);]])

plant_bug(pause_throws_through "an exception of Source::pause() or resume() ends the program"
  src/stream/pipeline_engine.cc
  [[    fail_by(std::current_exception());
  }
  return full;
}

// ---- committing]]
  [[    if (planted("pause_throws_through")) throw;
    fail_by(std::current_exception());
  }
  return full;
}

// ---- committing]])

plant_bug(revoked_with_the_first "partitions that are revoked together are given up when the first of them is done"
  src/stream/pipeline_engine.cc
  [[if (!late && std::any_of(revoked_.begin(), revoked_.end(), runs)) return true;]]
  [[if (!late && (planted("revoked_with_the_first") ? std::all_of(revoked_.begin(), revoked_.end(), runs) : std::any_of(revoked_.begin(), revoked_.end(), runs))) return true;]])

plant_bug(revoked_commit_tried_once "a revoked partition is given back although its commit failed and could be tried again"
  src/stream/pipeline_engine.cc
  [[if (!commit() && !late) return true;]]
  [[if (!commit() && !late && !planted("revoked_commit_tried_once")) return true;]])

plant_bug(revoked_commit_without_end "a revoked partition is kept as long as its commit fails"
  src/stream/pipeline_engine.cc
  [[if (!commit() && !late]]
  [[if (!commit() && (!late || planted("revoked_commit_without_end"))]])

plant_bug(store_outlived "run_until() returns while a dead letter is being stored"
  src/stream/pipeline_run.cc
  [[if (storing_ > 0) return false;]]
  [[if (storing_ > 0 && !planted("store_outlived")) return false;]])

plant_bug(unclassified_overtaken "records behind one that cannot be classified are handled"
  src/stream/pipeline_engine.cc
  [[if (failed()) break;]]
  [[if (failed() && !planted("unclassified_overtaken")) break;]])

plant_bug(assigned_again_not_given_up "a partition that is assigned again goes on with the records of before, too"
  src/stream/pipeline_engine.cc
  [[if (found != partitions_.end()) {
    found->second->give_up();]]
  [[if (found != partitions_.end() && !(planted("assigned_again_not_given_up") && event.kind == PartitionEvent::kAssigned)) {
    found->second->give_up();]])

plant_bug(key_pauses_cross "of two calls for one key at once, pause_key() and resume_key(), the executor may hear the older one last"
  src/stream/pipeline_run.cc
  [[} while (is_paused(group) != paused);]]
  [[} while (is_paused(group) != paused && !planted("key_pauses_cross"));]])

plant_bug(group_calls_plus_one "a pipeline with by_group handles one record more at once than concurrency"
  src/stream/pipeline_engine.cc
  [[policy.global_max_in_flight = options.concurrency;
  if (options.by_group) policy.groups]]
  [[policy.global_max_in_flight = options.concurrency + (planted("group_calls_plus_one") ? 1 : 0);
  if (options.by_group) policy.groups]])

plant_bug(commit_every_ignored "a pipeline commits by time only, however many records are done"
  src/stream/pipeline_engine.cc
  [[if (now >= next_commit_ || enough) commit();]]
  [[if (now >= next_commit_ || (enough && !planted("commit_every_ignored"))) commit();]])

plant_bug(revoke_waits_for_all "a partition that is revoked is kept until its last record ends, however long that takes"
  src/stream/pipeline_engine.cc
  [[revoked_until_ = from_now(options_.shutdown_wait);]]
  [[revoked_until_ = planted("revoke_waits_for_all") ? TimePoint::max() : from_now(options_.shutdown_wait);]])

plant_bug(revoke_holds_all_back "records that are set aside are not dispatched while a partition is revoked"
  src/stream/pipeline_engine.cc
  [[if (awaits_commit_) return false;
  bool any = false;
  for (const std::size_t key]]
  [[if (awaits_commit_ || (planted("revoke_holds_all_back") && !revoked_.empty())) return false;
  bool any = false;
  for (const std::size_t key]])

plant_bug(polls_while_revoked "the source is polled while a partition is being given back"
  src/stream/pipeline_engine.cc
  [[if (is_revoking() || source_ended_]]
  [[if ((is_revoking() && !planted("polls_while_revoked")) || source_ended_]])

plant_bug(revoke_without_timer "no timer ends a revoke at shutdown_wait"
  src/stream/pipeline_engine.cc
  [[return revoked_.empty() ? next : std::min(next, revoked_until_);]]
  [[return revoked_.empty() || planted("revoke_without_timer") ? next : std::min(next, revoked_until_);]])

plant_bug(idle_time_overflows "a source that is idle for ever is polled without end"
  src/stream/pipeline_engine.cc
  [[next_poll_ = from_now(polled->idle_for);]]
  [[next_poll_ = planted("idle_time_overflows") ? scheduler_.now() + polled->idle_for : from_now(polled->idle_for);]])

plant_bug(end_waits_for_rates "a pipeline that stops waits for records that wait for a token of their key's rate"
  src/stream/pipeline_run.cc
  [[executor_->end_rates();]]
  [[if (!planted("end_waits_for_rates")) executor_->end_rates();]])

plant_bug(end_waits_for_group_rates "a pipeline that stops waits for records that wait for a token of their group's rate"
  src/stream/pipeline_run.cc
  [[if (calls_) calls_->end_rates();]]
  [[if (calls_ && !planted("end_waits_for_group_rates")) calls_->end_rates();]])

plant_bug(all_partitions_balanced "a step looks at all partitions"
  src/stream/pipeline_engine.cc
  [[if (pauses_changed_ && pauses_changed_.exchange(false)) {]]
  [[if (planted("all_partitions_balanced") || (pauses_changed_ && pauses_changed_.exchange(false))) {]])

plant_bug(full_forgotten "a partition that is full is not looked at again"
  src/stream/pipeline_engine.cc
  [[partition->is_listed = balance(*partition);]]
  [[partition->is_listed = balance(*partition) && !planted("full_forgotten");]])

plant_bug(pause_unheard "the pump does not look at a partition that a user pauses or resumes"
  src/stream/pipeline_stats.cc
  [[pauses_changed_ = true;]]
  [[pauses_changed_ = !planted("pause_unheard");]])

plant_bug(assigned_unbalanced "a partition that is paused before it is assigned is read"
  src/stream/pipeline_engine.cc
  [[return will_balance(partition);  //]]
  [[if (planted("assigned_unbalanced")) return;
    return will_balance(partition);  //]])

plant_bug(past_end_watched "the pump spins while it waits for a store that takes longer than shutdown_wait"
  src/stream/pipeline_engine.cc
  [[if (ending_ && !closed_) next]]
  [[if (ending_ && (!closed_ || planted("past_end_watched"))) next]])

plant_bug(revoke_watched_at_the_end "the pump spins when a revoke should be over and the run is ending"
  src/stream/pipeline_engine.cc
  [[if (ending_) return next;]]
  [[if (ending_ && !planted("revoke_watched_at_the_end")) return next;]])

plant_bug(letter_after_halt "a defective record that gets its turn after a halt becomes a dead letter"
  src/stream/pipeline_record.cc
  [[if (!item.partition().is_dropped() && !halts_) {]]
  [[if (!item.partition().is_dropped() && (!halts_ || planted("letter_after_halt"))) {]])

plant_bug(distinct_batch_after_halt "a batch of distinct keys is handled after a halt"
  src/stream/pipeline_batch.cc
  [[if (member->partition.is_dropped() || halts_) continue;]]
  [[if (member->partition.is_dropped() || (halts_ && !planted("distinct_batch_after_halt"))) continue;]])

plant_bug(batch_timer_set_late "a record joins a batch before it sets the timer of the batch"
  src/stream/pipeline_batch.cc
  [[!is_dropped && waiting_.empty() && most > 1 && !member.has_timer();]]
  [[!is_dropped && waiting_.empty() && most > 1 && !member.has_timer();
    if (planted("batch_timer_set_late") && needs_timer) {
      waiting_.push_back(&member);
      mutex_.unlock();
      member.set_timer();
      return mutex_.lock();
    }]])

plant_bug(dropped_batch_lingers "records that wait for a full batch stay in line when their partition is revoked"
  src/stream/pipeline_batch.cc
  [[if (dropped.empty()) return;]]
  [[if (dropped.empty() || planted("dropped_batch_lingers")) return;]])

plant_bug(dropped_batch_timer_lost "records stay in a batch's line when the record with its timer has left"
  src/stream/pipeline_batch.cc
  [[batch = std::exchange(waiting_, {});  // the timer may]]
  [[if (!planted("dropped_batch_timer_lost")) batch = std::exchange(waiting_, {});  // the timer may]])

plant_bug(rest_ends_for_the_first "of a batch that rests, only the revoke of the first record's partition ends the rest"
  src/stream/pipeline_batch.cc
  [[if (!seen.insert(&partition).second) continue;]]
  [[if (!seen.insert(&partition).second || (planted("rest_ends_for_the_first") && seen.size() > 1)) continue;]])

plant_bug(rest_ends_for_all "the loss of a partition ends the rest of records of others in the same batch"
  src/stream/pipeline_batch.cc
  [[while (!batch->empty() && scheduler_.now() < until);]]
  [[while (!batch->empty() && scheduler_.now() < until && !planted("rest_ends_for_all"));]])

plant_bug(key_batch_after_halt "a batch of one key is handled after a halt"
  src/stream/pipeline_batch.cc
  [[if (batch.empty() || halts_) break;]]
  [[if (batch.empty() || (halts_ && !planted("key_batch_after_halt"))) break;]])

plant_bug(call_after_halt "a record whose group has room only after a halt is handled"
  src/stream/pipeline_record.cc
  [[if (item->partition().is_dropped() || halts_) co_return std::nullopt;]]
  [[if (item->partition().is_dropped() || (halts_ && !planted("call_after_halt"))) co_return std::nullopt;]])

plant_bug(try_after_halt "a record is tried again after a halt"
  src/stream/pipeline_record.cc
  [[if (partition.is_dropped() || halts_) co_return;]]
  [[if (partition.is_dropped() || (halts_ && !planted("try_after_halt"))) co_return;]])

plant_bug(one_cycle_looked_at "when a lock that passes on closes a cycle, only the first cycle is searched for a wait to refuse"
  src/runtime/wait_search.cc
  [[any_stuck = true;]]
  [[any_stuck = !planted("one_cycle_looked_at");]])

plant_bug(stack_below_run_not_seen "an await in sync_wait() does not count for the submitter that started the coroutine"
  src/runtime/linked_wait.cc
  [[return wait.blocks || wait.operation.is_confined();]]
  [[return wait.blocks || (!planted("stack_below_run_not_seen") && wait.operation.is_confined());]])

plant_bug(follower_not_checked "a task that shares the result of a task which waits for it is accepted"
  src/groups/group_conflation.cc
  [[if (wait->begin(leader)) {]]
  [[if (wait->begin(leader) || planted("follower_not_checked")) {]])

plant_bug(dependent_target_not_seen "a wait for a task that waits for the waiter counts as one that closes no cycle"
  src/runtime/wait_search.cc
  [[if (one.waiter == edge.task || !]]
  [[if ((one.waiter == edge.task && !planted("dependent_target_not_seen")) || !]])

plant_bug(leaves_again_unchecked "a task that leaves its lane again does not look whether the lane has lost room meanwhile"
  src/runtime/wait_graph.cc
  [[return leaves_lane && lost_room;]]
  [[return leaves_lane && lost_room && !planted("leaves_again_unchecked");]])

plant_bug(place_taken_makes_no_room "a cheaper task that takes the place of a superseded one lets no task in that waits for room"
  src/groups/group_conflation.cc
  [[if (took) intake_.made_room(*lane, aftermath);]]
  [[if (took && !planted("place_taken_makes_no_room")) intake_.made_room(*lane, aftermath);]])

plant_bug(costly_newcomer_in_line_unseen "a costly task that joins the line for room leaves their permits to tasks that wait for those behind it"
  src/groups/intake.cc
  [[if (costly) room_shrank(lane.key(), aftermath);  // tasks]]
  [[if (costly && !planted("costly_newcomer_in_line_unseen")) room_shrank(lane.key(), aftermath);  // tasks]])

plant_bug(taken_permit_stays_counted "a lane whose permit a returner took still has it by shares"
  src/groups/global_gate.cc
  [[if (shares_) count(lane, -1);]]
  [[if (shares_ && !planted("taken_permit_stays_counted")) count(lane, -1);]])

plant_bug(permit_taken_for_ever "one permit that a returner took costs every lane that is served later its permit"
  src/groups/global_gate.cc
  [[--taken_;]]
  [[if (!planted("permit_taken_for_ever")) --taken_;]])

plant_bug(permit_not_taken "a returner that takes the permit of a served lane leaves it to the lane, too"
  src/groups/global_gate.cc
  [[++taken_;]]
  [[if (planted("permit_not_taken")) --served_; else ++taken_;]])

plant_bug(served_lane_returns_last "a lane whose permit a returner took stands in line behind all others"
  src/groups/global_gate.cc
  [[line_.push_front(lane);]]
  [[planted("served_lane_returns_last") ? line_.push(lane, INT64_MAX, limit_) : line_.push_front(lane);]])

plant_bug(lost_permit_costs_a_share "a lane whose permit a returner took has used its share by shares"
  src/groups/gate_line.h
  [[state.served_until -= kRound / state.weight;]]
  [[if (!planted("lost_permit_costs_a_share")) state.served_until -= kRound / state.weight;]])

plant_bug(refusal_wakes_nobody "who comes first in a lock's line because a wait was refused is not woken"
  src/locks/lock_table.cc
  [[if (news.comes_first != nullptr) futex_wake_one(*news.comes_first);
  waiter.next]]
  [[if (news.comes_first != nullptr && !planted("refusal_wakes_nobody")) futex_wake_one(*news.comes_first);
  waiter.next]])

plant_bug(global_limits_differ "two calls of set_global_limit() at once may leave one limit in the gate and another one in the queue"
  src/groups/group_control.cc
  [[MutexLock lock(global_limit_mutex_);  // two callers]]
  [[Mutex<LockRank::kGlobalLimit> own;
  MutexLock lock(planted("global_limits_differ") ? own : global_limit_mutex_);  // two callers]])

plant_bug(kept_permits_unheard "a task that keeps its permits when a wait ends does not look whether others wait for them"
  src/groups/waits.cc
  [[if ((is_news || holds_again) && still_waits)]]
  [[if ((is_news || (holds_again && !planted("kept_permits_unheard"))) && still_waits)]])

plant_bug(turned_away_without_permit "a refused call ends its work before its caller has its permits again"
  src/groups/group_call.cc
  [[caller.give_up();  // before]]
  [[if (!planted("turned_away_without_permit")) caller.give_up();  // before]])

plant_bug(inside_shutdown_waits_for_threads "a shutdown on a thread of the dispatcher waits for one that ends this thread"
  src/serial/serial_dispatcher.cc
  [[if (inside) return false;
  bool ended = true;  // false: work waits for the caller]]
  [[if (inside) {
    if (planted("inside_shutdown_waits_for_threads")) MutexLock lock(parts_->shutdown_mutex);
    return false;
  }
  bool ended = true;]])

plant_bug(lanes_looked_at_once "drain() returns when each lane was empty once, although a task went from one to another meanwhile"
  src/lanes/lane_table.cc
  [[if (after == before) return true;]]
  [[if (after == before || planted("lanes_looked_at_once")) return true;]])

plant_bug(own_limit_costs_a_share "a group at its own limit is not coming when its task ends"
  src/groups/global_gate.cc
  [[if (shares_ && has_turn) line_.expect(lane);]]
  [[if (shares_ && has_turn && !planted("own_limit_costs_a_share")) line_.expect(lane);]])

plant_bug(guarantee_moves_the_line_on "what a group gets by its guarantee moves the others on"
  src/groups/gate_line.h
  [[if (first.waits_longer) now_ =]]
  [[if (first.waits_longer || planted("guarantee_moves_the_line_on")) now_ =]])

plant_bug(in_flight_change_lost "set_limits() ignores max_in_flight"
  src/groups/limit_book.cc
  [[if (change.max_in_flight) limits]]
  [[if (change.max_in_flight && !planted("in_flight_change_lost")) limits]])

plant_bug(eviction_keeps_change "evict_group() keeps what set_limits() has changed"
  src/groups/limit_book.cc
  [[if (was_changed) changed_.erase(found);]]
  [[if (was_changed && !planted("eviction_keeps_change")) changed_.erase(found);]])

plant_bug(ended_operation_kept "what runs after the end of a coroutine refers to its operation, which is destroyed"
  src/runtime/task.cc
  [[{ CurrentTaskScope::leave(operation); }]]
  [[{
  if (!planted("ended_operation_kept")) CurrentTaskScope::leave(operation);
}]])

plant_bug(captures_outlive_their_operation "the captures of a coroutine's callable are destroyed after its operation"
  include/keyway/detail/task_node.h
  [[callable_.~F();  // within the operation of the coroutine
    if constexpr (kCoroutine) coroutine_.end_operation();]]
  [[if constexpr (kCoroutine) {
      if (planted("captures_outlive_their_operation")) coroutine_.end_operation();
    }
    callable_.~F();
    if constexpr (kCoroutine) coroutine_.end_operation();]])
plant_bug(next_found_among_all "a look at the next waiter walks over all who wait"
  src/lanes/lane.h
  [[    if (next == nullptr) return std::nullopt;]]
  [[    if (planted("next_found_among_all")) each_in_order([](const Waiter&) { return true; });
    if (next == nullptr) return std::nullopt;]])

plant_bug(fitting_looks_at_all "a lane with a priority looks at each waiter to say how many could run"
  src/lanes/lane_ranks.cc
  [[if (wanted <= room) return]]
  [[if (wanted <= room && !planted("fitting_looks_at_all")) return]]
  AND
  [[if (costs.extra() == 0) return]]
  [[if (costs.extra() == 0 && !planted("fitting_looks_at_all")) return]])

plant_bug(costs_of_waiters_ignored "a costly waiter counts as one permit if it seems that all who wait could run"
  src/lanes/lane_ranks.cc
  [[const std::uint64_t wanted = most + costs.extra();]]
  [[const std::uint64_t wanted = most + (planted("costs_of_waiters_ignored") ? 0 : costs.extra());]])

plant_bug(running_looked_at_again "a task that supersedes others looks at all that have begun, however many newer tasks have done so"
  src/groups/conflation.h
  [[entry.superseded_before = std::max]]
  [[if (!planted("running_looked_at_again")) entry.superseded_before = std::max]])

plant_bug(kept_task_not_stopped "a task that cancels running ones misses those that a newer one let finish"
  src/groups/conflation.h
  [[lower_bound(stops ? entry.stopped_before]]
  [[lower_bound(stops && !planted("kept_task_not_stopped") ? entry.stopped_before]])
# ---- what waits and threads cost

plant_bug(drain_slows_waits "while a task drains an executor, each wait in the process is searched"
  src/runtime/wait_search.cc
  [[if (is_work_of_several(edge) || !short_of_threads_.empty()) return false;]]
  [[if (is_work_of_several(edge) || !short_of_threads_.empty() || (planted("drain_slows_waits") && !work_edges_.empty())) return false;]])

plant_bug(branch_lock_slows_waits "the waits of a task are searched once a branch of it has had a lock"
  src/runtime/wait_search.cc
  [[if (parts_lock && node->is_away() && !can_come_back_at_once(*node)) return false;]]
  [[if (parts_lock && (planted("branch_lock_slows_waits") || (node->is_away() && !can_come_back_at_once(*node)))) return false;]])

plant_bug(search_for_each_holder "a lower limit is searched again after each waiter that gives its permit back"
  src/runtime/wait_search.cc
  [[if (freed >= stuck.lacking) break;]]
  [[if (freed >= (planted("search_for_each_holder") ? 1 : stuck.lacking)) break;]])

plant_bug(probe_without_pause "a pool looks at all of its threads each millisecond, however long that takes"
  src/runtime/pool_growth.h
  [[next_ = now + kPause * took;]]
  [[next_ = planted("probe_without_pause") ? now : now + kPause * took;]])

plant_bug(pool_end_spins "the destructor of a pool spins while an item runs"
  src/runtime/thread_pool_growth.cc
  [[thread.join();
    MutexLock]]
  [[while (planted("pool_end_spins") && !has_exited(worker->thread_id)) std::this_thread::yield();
    thread.join();
    MutexLock]])

plant_bug(flood_stays "times that were sampled in a flood are sampled until as many again are measured"
  src/runtime/sampled_times.cc
  [[} else if (floods && time]]
  [[} else if (floods && !planted("flood_stays") && time]])

plant_bug(lower_limit_within_a_turn "a lower global limit does not hold for the next tasks of a worker's turn"
  src/groups/global_gate.cc
  [[limit_ = limit;
  over_.store(in_flight_ > limit_]]
  [[limit_ = limit;
  if (!planted("lower_limit_within_a_turn")) over_.store(in_flight_ > limit_]])

plant_bug(queued_replacement_unseen "waiting tasks keep their permits when a costlier task takes the place of a queued one"
  src/groups/group_conflation.cc
  [[if (took && Intake::is_costly(task) && lane->take_need_grew()) {]]
  [[if (took && Intake::is_costly(task) && lane->take_need_grew() && !planted("queued_replacement_unseen")) {]])

plant_bug(known_locks_of_many "an operation that has held many locks counts as holding only the first ones"
  include/keyway/detail/operation.h
  [[    } else {
      forget_known_locks();
    }]]
  [[    } else if (!planted("known_locks_of_many")) {
      forget_known_locks();
    }]])

plant_bug(log_within_release "the log of a release runs when the lock does not count as held any more"
  src/locks/key_locks.cc
  [[  // User code, while the lock is held]]
  [[  if (planted("log_within_release")) detail::CurrentTaskScope::current().count_release(guard.operation_, table_->lock_id(guard.entry_->hash));
  // User code, while the lock is held]]
  AND
  [[  operation.count_release(guard.operation_, table_->lock_id(guard.entry_->hash));
  const auto options = options_;]]
  [[  if (!planted("log_within_release")) operation.count_release(guard.operation_, table_->lock_id(guard.entry_->hash));
  const auto options = options_;]])

plant_bug(line_left_in_a_search "a waiter leaves the line of a lock while the wait of one behind it is checked"
  src/locks/lock_wait.cc
  [[  const bool left = WaitGraph::instance().between_searches(
      [&] { return table_.withdraw(hash_, waiter_, cancels, news); });]]
  [[  const auto withdraw = [&] { return table_.withdraw(hash_, waiter_, cancels, news); };
  const bool left = planted("line_left_in_a_search") ? withdraw() : WaitGraph::instance().between_searches(withdraw);]])
