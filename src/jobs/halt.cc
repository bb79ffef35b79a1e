#include "jobs/halt.h"

namespace keyway::jobs {

bool halt_is_reached(const Halt& halt, std::uint64_t failed, std::uint64_t ended) {
  if (halt.when == Halt::When::kNever || failed == 0) return false;
  const auto wanted = static_cast<std::uint64_t>(halt.fail);
  if (!halt.percent) return failed >= wanted;
  return ended >= kLeastEnded && failed * 100 >= wanted * ended;
}

}  // namespace keyway::jobs
