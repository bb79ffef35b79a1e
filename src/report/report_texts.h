// What a report calls things, so that one page serves jobs in groups and records under keys.
#pragma once

#include <string>

namespace keyway {

struct ReportTexts {
  std::string title;                     // what was run: "jobs.jsonl"
  std::string command = "keyway batch";  // what ran it
  std::string item = "job";
  std::string items = "jobs";
  std::string group = "group";
  std::string groups = "groups";
};

}  // namespace keyway
