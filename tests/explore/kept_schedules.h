// Schedules that broke a scenario while a bug was planted (tests/bite/bugs.cmake), kept as tests: the test of that
// scenario replays them, and they must hold in the library as it is. A replay makes the same switches between threads
// as far as the code still allows them.
//
// `make bite` replays each with its bug planted, where it must fail. When the code has changed so that it does not:
//   tests/bite/bite.py --keep <bug>...
// explores the scenario again and writes the schedule that it finds.
#pragma once

#include <cstdint>

namespace keyway::explore {

struct KeptSchedule {
  const char* bug;
  const char* test;
  const char* schedule;
  std::uint64_t found_after;  // so many interleavings
};

// clang-format off
inline constexpr KeptSchedule kKeptSchedules[] = {
    {"coroutine_ends_unsearched", "ExploreLocks.EndOfACoroutineWhileItsSchedulerIsAsked", "14:1,45:0", 460},
    {"costly_newcomer_in_line_unseen", "ExploreGroupLimits.ACostlyTaskJoinsTheLineInFrontOfOneThatIsWaitedFor", "46:0", 49},
    {"drain_not_in_graph", "ExploreGroupControl.ADrainInATaskCountsItsThreadFromTheBeginning", "0:1,2:2,4:1,140:2,152:2,175:2,192:0", 3356},
    {"drain_waits_for_held", "ExploreGroupControl.DrainAfterACancelWhilePaused", "-", 1},
    {"end_before_watch_missed", "ExplorePipeline.RecordsOfOneKeySetAside", "94:2", 732},
    {"gate_without_limit", "ExploreWaits.BranchesThatWaitForOtherGroupsWithoutAGlobalLimit", "15:0,86:2", 3317},
    {"global_limits_differ", "ExploreGroupLimits.TwoChangesOfTheGlobalLimit", "3:1", 451},
    {"key_pauses_cross", "ExplorePipeline.RecordsOfAKeyThatWasPausedAndResumedAtOnce", "11:1,13:2", 63},
    {"lane_lock_order", "ExploreGroups.StatsWhileTheGateLooksForTheOldest", "24:0,57:2,63:1", 4100},
    {"lanes_looked_at_once", "ExploreLaneTable.EmptyAgainstATaskThatMovesOn", "0:1,44:0,50:1", 308},
    {"line_overtaken", "ExploreGlobalQueue.ALaterCallDoesNotOvertakeTheLine", "1:1,2:2,3:1,4:2,6:0,7:2,9:0,11:2,12:1,13:0,14:2,15:0,19:2,20:1,21:0,23:2,24:0,26:1,28:0,29:2,31:0,33:1,34:0,35:2,37:0,40:1,42:0,44:1,46:0,47:1,48:0,50:1,51:0,52:1,54:0,55:1,56:0,57:1,58:1,61:0,62:1,64:0,65:1,68:0,69:1", 4431},
    {"listener_before_next", "ExploreGroupListeners.AListenerOfCompletionWaitsForTheNextTask", "-", 1},
    {"pause_keeps_returner", "ExploreGroupControl.ATaskThatBeganBeforeThePauseComesBackToItsLane", "-", 1},
    {"place_seen_early", "ExploreGlobalQueue.NoPlaceIsLostWhenATaskTakesThatOfOneThatEnters", "39:1", 92},
    {"pump_check_then_store", "ExplorePipeline.RecordsOfOneKeySetAside", "135:2", 692},
    {"pump_forgets_its_end", "ExplorePump.MayBeDestroyedAfterItsEnd", "9:2,12:1", 19},
    {"pump_woken_early", "ExplorePipeline.RecordsOfOneKeyWithNoneInLine", "295:2", 448},
    {"quiet_announced_early", "ExploreGroupControl.AWaitForQuietSeesTheLastStep", "3:1", 57},
    {"refusal_wakes_nobody", "ExploreLockPassing.ARefusedWaitWakesTheThreadThatComesFirst", "-", 1},
    {"refused_wait_counts", "ExploreWaits.ARefusedWaitGivesNothingBackWhileAnotherBranchEnds", "0:1,2:2,4:1,51:2,108:0,113:2,129:0", 3768},
    {"resume_relaxed", "ExploreGroupControl.WhatIsWrittenBeforeResumeIsSeenByWhatStartsAfterIt", "-", 1},
    {"token_taken_late", "ExploreGroups.NeverMoreThanTheRateAllows", "0:1,2:2,4:1,21:2,29:2,71:0", 3388},
    {"two_ids_drawn", "ExploreOperation.DrawsOneId", "2:1", 2},
};
// clang-format on

}  // namespace keyway::explore
