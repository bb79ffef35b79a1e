// The files of the page, which the build puts into the program (embed_page.cmake).
#pragma once

#include <string_view>

namespace keyway::page_parts {

extern const std::string_view kTemplate;
extern const std::string_view kStyle;
extern const std::string_view kScript;
// SHA-256 in base 64, for the page's Content-Security-Policy: no other style or script runs.
extern const std::string_view kStyleHash;
extern const std::string_view kScriptHash;

}  // namespace keyway::page_parts
