// Which task runs on this thread just now, innermost first: what a wait inside a task must know.
#pragma once

namespace keyway::detail {

class CurrentTaskScope {
 public:
  explicit CurrentTaskScope(void* task) : task_(task), outer_(innermost_) { innermost_ = this; }
  ~CurrentTaskScope() { innermost_ = outer_; }
  CurrentTaskScope(const CurrentTaskScope&) = delete;
  CurrentTaskScope& operator=(const CurrentTaskScope&) = delete;

  static const CurrentTaskScope* innermost() { return innermost_; }
  const CurrentTaskScope* outer() const { return outer_; }
  void* task() const { return task_; }

 private:
  static inline constinit thread_local const CurrentTaskScope* innermost_ = nullptr;

  void* const task_;
  const CurrentTaskScope* const outer_;
};

}  // namespace keyway::detail
