#include "report/page.h"

#include "keyway/detail/check.h"
#include "report/page_parts.h"
#include "report/script_json.h"

namespace keyway {
namespace {

struct Fills {
  const ReportTexts& texts;
  std::string_view headline;
  std::string_view json;

  void append(std::string& page, std::string_view name) const {
    if (name == "title") return void(page += html_text(texts.title));
    if (name == "command") return void(page += html_text(texts.command));
    if (name == "headline") return void(page += html_text(headline));
    if (name == "data") return void(page += json);
    if (name == "style") return void(page += page_parts::kStyle);
    if (name == "script") return void(page += page_parts::kScript);
    if (name == "style_hash") return void(page += page_parts::kStyleHash);
    if (name == "script_hash") return void(page += page_parts::kScriptHash);
    KEYWAY_CHECK(false, "page.html has a place that nothing fills");
  }
};

}  // namespace

std::string page(const ReportTexts& texts, std::string_view headline, std::string_view json) {
  const Fills fills{texts, headline, json};
  std::string result;
  std::string_view rest = page_parts::kTemplate;
  result.reserve(rest.size() + json.size() + page_parts::kScript.size() +
                 page_parts::kStyle.size() + 4096);
  // One pass: what is filled in is not looked at again, whatever it contains.
  for (;;) {
    const std::size_t open = rest.find("{{");
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find("}}", open);
    result += rest.substr(0, open);
    fills.append(result, rest.substr(open + 2, close - open - 2));
    rest.remove_prefix(close + 2);
  }
  result += rest;
  return result;
}

}  // namespace keyway
