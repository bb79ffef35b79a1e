#include "keyway/lock_explanation.h"

#include <ostream>

#include "base/human_text.h"
#include "base/quoted.h"

namespace keyway {

const char* to_string(LockMode mode) {
  return mode == LockMode::kExclusive ? "exclusive" : "shared";
}

std::string LockExplanation::text() const {
  std::string text = "key " + quoted(key) + ": ";
  if (holders.empty()) text += "free";
  const char* before = "held by ";
  for (const LockHolder& holder : holders) {
    text += before + holder.name;
    if (holder.mode == LockMode::kShared) text += " (shared)";
    if (holder.times > 1) text += " " + std::to_string(holder.times) + " times";
    before = ", ";
  }
  if (waiting > 0) text += "; " + grouped(waiting) + " waiting";
  if (first_waits) text += ", the first for " + human_duration(*first_waits);
  return text;
}

std::ostream& operator<<(std::ostream& out, const LockExplanation& explanation) {
  return out << explanation.text();
}

}  // namespace keyway
