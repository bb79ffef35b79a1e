// How far the files of a FileSource are done, as it is stored: lines of JSON, the last of which has a hash of all before.
//
//   {"keyway":"checkpoint","version":1,"settings":"key=.user order=key"}
//   {"path":"orders.jsonl","absolute":"/data/orders.jsonl","prefix_bytes":65536,"prefix_hash":"0f1e...","watermark":81920,
//    "line":1042,"done_above":[[82000,82100]]}                                          (one line for each file)
//   {"checksum":"a3b1..."}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keyway/error.h"
#include "keyway/gap_map.h"
#include "keyway/record.h"

namespace keyway {

struct Checkpoint {
  // How much of a file's beginning is compared, at most.
  static constexpr std::size_t kMostPrefix = std::size_t{64} << 10;

  struct File {
    std::string path;      // as it was given
    std::string absolute;  // that, from the root
    std::uint64_t prefix_bytes = 0;
    std::string prefix_hash;
    Offset watermark = 0;
    std::uint64_t line = 1;  // the number of the one that begins there
    GapMap done_above;
    bool operator==(const File&) const = default;
  };

  std::string settings;
  std::vector<File> files;
  bool operator==(const Checkpoint&) const = default;
};

std::string to_text(const Checkpoint& checkpoint);
// kConflict, with why: `text` is not exactly what to_text() made.
Result<Checkpoint> checkpoint_of(std::string_view text);

// What was stored with replace_file(); nothing if there is no such file. kConflict: it is damaged.
Result<std::optional<Checkpoint>> read_checkpoint(const std::string& path);

// As a checkpoint can hold it: bytes that are not UTF-8 in another form.
std::string storable(std::string_view text);

}  // namespace keyway
