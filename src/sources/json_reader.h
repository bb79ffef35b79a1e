// Finds what JsonPaths name, in one text after the other, without memory of its own for each.
//
//   JsonReader reader;
//   reader.read(json);
//   Result<JsonReader::Found> user = reader.find(path);
//
// The text is copied to where the parser may read beyond its end: which costs less than to know of every text whether
// that is allowed.
//
// Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <string_view>

#include "keyway/error.h"
#include "keyway/json_path.h"

namespace keyway {

class JsonReader {
 public:
  JsonReader();
  ~JsonReader();
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  // `json` outlives the finds in it.
  Result<void> read(std::string_view json);

  struct Found {
    enum Kind {
      kNothing,    // absent, or null
      kPart,       // `text` is a part of the text that was read
      kUnescaped,  // `text` is the reader's, until it is called again
    } kind = kNothing;
    std::string_view text;
  };
  // After a read() that succeeded. An error (kInvalidArgument): "not JSON: why".
  Result<Found> find(const JsonPath& path);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

// Only what JSON takes for white space.
bool is_blank(std::string_view text);

}  // namespace keyway
