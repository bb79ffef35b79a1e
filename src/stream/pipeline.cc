#include "keyway/pipeline.h"

#include "keyway/thread_pool.h"
#include "stream/pipeline_engine.h"

namespace keyway {

Pipeline::Pipeline(Source& source, PipelineOptions options, detail::AnyHandler handler,
                   Scheduler* scheduler)
    : own_scheduler_(scheduler == nullptr ? std::make_unique<ThreadPool>() : nullptr),
      engine_(std::make_unique<Engine>(source, std::move(options), std::move(handler),
                                       scheduler != nullptr ? *scheduler : *own_scheduler_)) {}

void detail::throw_null_handler() {
  throw Exception({ErrorCode::kInvalidArgument, "the handler of a pipeline is null"});
}

Pipeline::~Pipeline() = default;

Result<PipelineEnd> Pipeline::run_until(std::stop_token stop) {
  return engine_->run_until(std::move(stop));
}

void Pipeline::pause() { engine_->pause_all(true); }
void Pipeline::resume() { engine_->pause_all(false); }
void Pipeline::pause_key(std::string_view key) { engine_->pause_key(key, true); }
void Pipeline::resume_key(std::string_view key) { engine_->pause_key(key, false); }

void Pipeline::pause_partition(PartitionId id) { engine_->pause_partition(id, true); }
void Pipeline::resume_partition(PartitionId id) { engine_->pause_partition(id, false); }

PipelineStats Pipeline::stats() const { return engine_->stats(); }
Explanation Pipeline::explain(std::string_view key) const {
  Explanation why = engine_->explain(key);
  why.limits_are_fixed = true;
  why.explained = Explained::kRecords;
  return why;
}
Explanation Pipeline::explain_group(std::string_view group) const {
  Explanation why = engine_->explain_group(group);
  why.limits_are_fixed = true;
  why.explained = Explained::kRecordGroup;
  return why;
}

}  // namespace keyway
