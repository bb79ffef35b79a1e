#include "handlers/http_url.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace keyway::run {

namespace {

Error bad_url(std::string_view text, std::string_view why) {
  return {ErrorCode::kInvalidArgument, "\"" + std::string(text) +
                                           "\" is no URL to POST to: " + std::string(why) +
                                           "\n  try: --http http://127.0.0.1:8080/orders"};
}

bool is_visible_ascii(char letter) { return letter > ' ' && letter < 0x7f; }

}  // namespace

Result<HttpUrl> HttpUrl::parse(std::string_view text) {
  HttpUrl url;
  if (!std::all_of(text.begin(), text.end(), is_visible_ascii)) {
    return bad_url(text, "it has spaces or letters that must be percent-encoded");
  }
  std::string scheme(text.substr(0, text.find("://")));
  std::transform(scheme.begin(), scheme.end(), scheme.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  if (scheme != "http" && scheme != "https")
    return bad_url(text, "it begins with neither http:// nor https://");
  url.is_https = scheme == "https";
  std::string_view rest = text.substr(scheme.size() + 3);
  rest = rest.substr(0, rest.find('#'));
  const std::size_t path = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view where = rest.substr(0, path);
  url.target = rest.substr(path);
  if (!url.target.starts_with('/')) url.target.insert(0, "/");

  if (where.find('@') != std::string_view::npos) {
    return bad_url(text, "a name and password in it are not supported");
  }
  std::size_t host_end = std::min(where.find(':'), where.size());
  if (where.starts_with('[')) {
    const std::size_t bracket = where.find(']');
    if (bracket == std::string_view::npos) return bad_url(text, "a bracket is not closed");
    url.host = where.substr(1, bracket - 1);
    host_end = bracket + 1;
  } else {
    url.host = where.substr(0, host_end);
  }
  if (url.host.empty()) return bad_url(text, "it names no host");
  where.remove_prefix(host_end);
  url.port = url.is_https ? "443" : "80";
  if (where.empty()) return url;
  std::uint16_t port = 0;
  const char* end = where.data() + where.size();
  const auto [stop, failed] = std::from_chars(where.data() + 1, end, port);
  if (where.front() != ':' || failed != std::errc() || stop != end || port == 0) {
    return bad_url(text, "its port is no number from 1 to 65535");
  }
  url.port = std::to_string(port);
  return url;
}

std::string HttpUrl::authority() const {
  std::string text = host.find(':') == std::string::npos ? host : "[" + host + "]";
  if (port != (is_https ? "443" : "80")) text += ":" + port;
  return text;
}

}  // namespace keyway::run
