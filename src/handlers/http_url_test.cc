#include "handlers/http_url.h"

#include <vector>

#include <gtest/gtest.h>

namespace keyway::run {
namespace {

TEST(HttpUrl, HasHostPortAndTarget) {
  struct Case {
    std::string text, host, port, target, authority;
    bool is_https;
  };
  const std::vector<Case> cases = {
      {"http://localhost", "localhost", "80", "/", "localhost", false},
      {"HTTP://localhost:80/a", "localhost", "80", "/a", "localhost", false},
      {"http://localhost:8080/a/b?c=d#e", "localhost", "8080", "/a/b?c=d", "localhost:8080", false},
      {"https://example.org?x", "example.org", "443", "/?x", "example.org", true},
      {"https://[::1]:444/", "::1", "444", "/", "[::1]:444", true},
      {"http://[::1]", "::1", "80", "/", "[::1]", false},
  };
  for (const Case& expected : cases) {
    const Result<HttpUrl> url = HttpUrl::parse(expected.text);
    ASSERT_TRUE(url.ok()) << expected.text;
    EXPECT_EQ(url->host, expected.host) << expected.text;
    EXPECT_EQ(url->port, expected.port) << expected.text;
    EXPECT_EQ(url->target, expected.target) << expected.text;
    EXPECT_EQ(url->authority(), expected.authority) << expected.text;
    EXPECT_EQ(url->is_https, expected.is_https) << expected.text;
  }
}

TEST(HttpUrl, WhatIsNoneIsRefused) {
  for (const std::string text :
       {"", "localhost:80/x", "ftp://x", "http://", "http:///x", "http://:80",
        "http://x:", "http://x:0", "http://x:65536", "http://x:8o", "http://[::1", "http://[::1]x",
        "http://u:p@x/", "http://x/a b", "http://x/\xc3\xa4", "http://x/\r\nEvil: 1"}) {
    const Result<HttpUrl> url = HttpUrl::parse(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_EQ(url.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(url.error().message.find("\n  try: "), std::string::npos);
  }
}

}  // namespace
}  // namespace keyway::run
