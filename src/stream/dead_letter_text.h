// Dead letters as lines of JSON: see dead_letter_file.h for the form.
#pragma once

#include <string>
#include <string_view>

#include "keyway/dead_letters.h"

namespace keyway {

// With its newline.
void append_dead_letter(std::string& text, const DeadLetter& letter);
// For the log; without a newline.
void append_poison_pill(std::string& text, const DeadLetter& letter);

// Is it a whole line of JSON? Says nothing about what is in it.
bool is_json(std::string_view text);

}  // namespace keyway
