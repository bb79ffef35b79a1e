// Two places for dead letters: a file, and the log.
//
//   Pipeline pipeline(source, {.dead_letters = dead_letter_file("dead.jsonl")}, handler);
//
// A line of the file, without the breaks:
//   {"id":"f:1042","key":"u7","group":"u7","attempts":4,"first":"2026-11-15T11:07:43.120Z","last":...,
//    "cause":"exit 1","exit":1,"stderr_tail":"","source":{"topic":"orders.jsonl","partition":0,"offset":88120},
//    "unique_id":...,"record":{"user":"u7"}}
//
// What is not there is null ("key", "group", "exit", "unique_id"). "record" is the record's own JSON if it is an object,
// an array, a number, true, false or null in one line; of any other text, also one that is a JSON string, it is that
// text in quotes. A record that is no UTF-8 is in "record_b64" instead, such a key in "key_b64", a group in "group_b64".
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "keyway/dead_letters.h"

namespace keyway {

// Guarantees:
//   (1) When store() returns, the letter is on the disk.
//   (2) A letter is there whole or, if store() failed, not at all; what a crash left of one is cut off before the next.
//   (3) Many threads that store at once share one wait for the disk. Several processes may share a file.
// The file is made with the first letter, and only its owner may read it. Not guaranteed: that a record is there once;
// one that is handled again after a crash may die again.
// Its letters are read by `keyway dead`.
std::shared_ptr<DeadLetters> dead_letter_file(std::string path);

// A line for each letter, without a newline, is given to `write`, by one thread at a time:
//   {"severity":"ERROR","event_type":"POISON_PILL","time":...,"id":...,"key":...,"attempts":...,"cause":...,"payload":...}
// "payload" is as "record" above. When `write` returns without an error, the letter counts as stored.
std::shared_ptr<DeadLetters> dead_letter_log(
    std::function<Result<void>(std::string_view line)> write);

}  // namespace keyway
