// For tests: attempts of a handler, side by side.
#pragma once

#include <coroutine>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "handlers/call_fixture.h"
#include "handlers/handler.h"
#include "keyway/task.h"

namespace keyway::run {

class Attempts {
 public:
  explicit Attempts(Scheduler& scheduler) : context_{&scheduler, {}, root(scheduler)} {}

  struct One final : detail::Completion {
    One(std::string value, std::string id) : record(std::move(value), std::move(id)) {}
    std::coroutine_handle<> done() noexcept override {
      is_over = true;
      return std::noop_coroutine();
    }
    TestRecord record;
    std::optional<Task<Handled>> task;
    bool is_over = false;
    Handled handled() { return detail::TaskAccess::take(*task); }
  };

  One& start(Handler& handler, const std::string& value, const std::string& id) {
    One& one = *all_.emplace_back(std::make_unique<One>(value, id));
    one.task.emplace(handler.handle(one.record.call()));
    detail::TaskAccess::start(*one.task, context_, one);
    return one;
  }

 private:
  static detail::TaskOperation root(Scheduler& scheduler) {
    return detail::TaskOperation(&detail::Operation::current(), nullptr, &scheduler);
  }
  const detail::TaskContext context_;
  std::vector<std::unique_ptr<One>> all_;
};

}  // namespace keyway::run
