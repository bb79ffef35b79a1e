// Where records are POSTed: http://host[:port][/path][?query], or https.
#pragma once

#include <string>
#include <string_view>

#include "keyway/error.h"

namespace keyway::run {

struct HttpUrl {
  bool is_https = false;
  std::string host;    // without the brackets of an IPv6 address
  std::string port;    // a number
  std::string target;  // path and query, at least "/"

  // For the header Host: without a port that goes without saying.
  std::string authority() const;

  // kInvalidArgument, with what is wrong. What follows a # is left out.
  static Result<HttpUrl> parse(std::string_view text);
};

}  // namespace keyway::run
