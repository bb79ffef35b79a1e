// What the listener of a schedule hears.
#include "groups/schedules/group_schedule.h"

namespace keyway {

void GroupSchedule::on_submitted(std::string_view group, std::string_view id) {
  say("submitted", group, id);
  oracle_.submitted(schedule_group(group), id);
  listener_acts(id);
  oracle_.enters(id);
}

void GroupSchedule::on_started(std::string_view group, std::string_view id) {
  say("started", group, id);
  oracle_.started(schedule_group(group), id);
  if (GroupOracle::is_conflated(id) || may_wait_in(oracle_.task(id))) listener_acts(id);
}

void GroupSchedule::on_completed(std::string_view group, std::string_view id,
                                 const TaskOutcome& outcome) {
  say("completed", group, id);
  oracle_.completed(id, outcome.status);
  listener_acts(id);
}

void GroupSchedule::on_rejected(std::string_view group, std::string_view id,
                                RejectionReason reason) {
  say("rejected", group, id);
  oracle_.rejected(id, reason);
  listener_acts(id);
}

// Its waits count as those of the task that starts or ends, or of the submitter.
void GroupSchedule::listener_acts(std::string_view id) {
  if (acts_left_ == 0 || closing_ || GroupOracle::is_conflated(id) || !one_in(4)) return;
  --acts_left_;
  act();
}

}  // namespace keyway
