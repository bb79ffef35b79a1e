// The report's page: page.html with its style, its script and the data in it.
#pragma once

#include <string>
#include <string_view>

#include "report/report_texts.h"

namespace keyway {

// `headline` is text; `json` is from ScriptJson.
std::string page(const ReportTexts& texts, std::string_view headline, std::string_view json);

}  // namespace keyway
