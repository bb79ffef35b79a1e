#include <atomic>
#include <csignal>
#include <cstdlib>
#include <latch>

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "handlers/call_fixture.h"
#include "handlers/handlers.h"
#include "handlers/http_test_server.h"
#include "process/event_loop.h"
#include "support/temporary_folder.h"

namespace keyway::run {
namespace {

using namespace std::chrono_literals;
using Reply = HttpTestServer::Reply;
using Request = HttpTestServer::Request;

class HttpHandler : public ::testing::Test {
 protected:
  void make(HttpOptions options) {
    Result<std::unique_ptr<Handler>> made = make_http_handler(std::move(options), loop_);
    ASSERT_TRUE(made.ok()) << made.error().message;
    handler_ = std::move(*made);
  }
  Handled handle(const std::string& value, const std::string& key = "u7", int attempt = 1) {
    const TestRecord record(value, "f:7", key);
    return sync_wait(loop_, handler_->handle(record.call(attempt)));
  }

  EventLoop loop_;
  std::unique_ptr<Handler> handler_;
};

TEST_F(HttpHandler, PostsTheRecordAndSaysWhichItIs) {
  std::optional<Request> seen;
  HttpTestServer server([&](const Request& request) {
    seen = request;
    return Reply{};
  });
  make({.url = server.url("/orders?x=1")});
  const Handled handled = handle(R"({"a":1})", "u 7\n", 2);
  EXPECT_EQ(handled.outcome.kind, Outcome::kDone);
  EXPECT_TRUE(handled.output.empty());
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->method_string(), "POST");
  EXPECT_EQ(seen->target(), "/orders?x=1");
  EXPECT_EQ(seen->body(), R"({"a":1})");
  EXPECT_EQ((*seen)["Content-Type"], "application/json");
  EXPECT_EQ((*seen)["Keyway-Key"], "u 7%0A");
  EXPECT_EQ((*seen)["Keyway-Id"], "f:7");
  EXPECT_EQ((*seen)["Keyway-Attempt"], "2");
  EXPECT_EQ((*seen)["Idempotency-Key"], "0123456789abcdef");
  EXPECT_EQ("http://" + std::string((*seen)["Host"]) + "/", server.url());
}

TEST_F(HttpHandler, TheContentTypeIsThatOfTheRecord) {
  std::string type;
  HttpTestServer server([&](const Request& request) {
    type = request["Content-Type"];
    return Reply{};
  });
  make({.url = server.url()});
  handle("[1]");
  EXPECT_EQ(type, "application/json");
  handle("a line");
  EXPECT_EQ(type, "text/plain; charset=utf-8");
  handle("\xff\xfe");
  EXPECT_EQ(type, "application/octet-stream");
}

TEST_F(HttpHandler, TheStatusSaysWhatBecameOfTheRecord) {
  Reply reply;
  HttpTestServer server([&](const Request&) { return reply; });
  make({.url = server.url()});
  const std::vector<std::pair<int, Outcome::Kind>> cases = {
      {200, Outcome::kDone},   {201, Outcome::kDone},   {204, Outcome::kDone},
      {299, Outcome::kDone},   {301, Outcome::kFailed}, {304, Outcome::kFailed},
      {400, Outcome::kFailed}, {401, Outcome::kFailed}, {404, Outcome::kFailed},
      {408, Outcome::kRetry},  {422, Outcome::kFailed}, {425, Outcome::kRetry},
      {429, Outcome::kRetry},  {500, Outcome::kRetry},  {503, Outcome::kRetry},
      {599, Outcome::kRetry},
  };
  for (const auto& [status, kind] : cases) {
    reply = {.status = status};
    EXPECT_EQ(handle("1").outcome.kind, kind) << status;
  }
  EXPECT_EQ(server.connections(), 1u);
}

TEST_F(HttpHandler, TheReasonShowsTheBeginOfTheAnswer) {
  Reply reply{.status = 422, .body = "no such\ncustomer" + std::string(1000, '.')};
  HttpTestServer server([&](const Request&) { return reply; });
  make({.url = server.url()});
  EXPECT_EQ(handle("1").outcome.reason,
            "HTTP 422 Unprocessable Entity: no such customer" + std::string(184, '.') + "...");
  reply = {.status = 302, .headers = {{"Location", "https://other.example/"}}};
  EXPECT_EQ(handle("1").outcome.reason,
            "HTTP 302 Found, which is not followed: the records belong to https://other.example/");
}

TEST_F(HttpHandler, RetryAfterIsHonoured) {
  Reply reply{.status = 429, .headers = {{"Retry-After", "7"}}};
  HttpTestServer server([&](const Request&) { return reply; });
  make({.url = server.url()});
  EXPECT_EQ(handle("1").outcome.delay, 7s);
  reply.headers = {{"Retry-After", "Sun, 06 Nov 1994 08:49:37 GMT"}};
  EXPECT_EQ(handle("1").outcome.delay, 0s);
  reply.headers = {};
  EXPECT_FALSE(handle("1").outcome.delay.has_value());
}

TEST_F(HttpHandler, AConnectionIsKept) {
  HttpTestServer server([](const Request&) { return Reply{.body = "ok"}; });
  make({.url = server.url(), .connections = 4});
  for (int i = 0; i < 50; ++i) ASSERT_EQ(handle("1").outcome.kind, Outcome::kDone);
  EXPECT_EQ(server.connections(), 1u);
}

TEST_F(HttpHandler, AKeptConnectionThatWasClosedIsReplacedWithinTheAttempt) {
  std::atomic<int> requests = 0;
  HttpTestServer server([&](const Request&) {
    ++requests;
    return Reply{.body = "ok", .closes_after = true};
  });
  make({.url = server.url()});
  for (int i = 0; i < 20; ++i) ASSERT_EQ(handle("1").outcome.kind, Outcome::kDone);
  EXPECT_EQ(requests, 20);
  EXPECT_EQ(server.connections(), 20u);
}

TEST_F(HttpHandler, AKeptConnectionThatIsClosedByTheRequestIsTriedOnceMore) {
  std::atomic<int> requests = 0;
  HttpTestServer server([&](const Request&) {
    ++requests;
    return Reply{.closes_before = requests > 1};
  });
  make({.url = server.url()});
  EXPECT_EQ(handle("1").outcome.kind, Outcome::kDone);
  const Handled handled = handle("2");
  EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
  EXPECT_NE(handled.outcome.reason.find("no answer from 127.0.0.1"), std::string::npos);
  EXPECT_EQ(requests, 3) << "on the kept connection, and on a new one";
}

TEST_F(HttpHandler, ASlowAnswerIsWaitedForAndAnEarlyHintIsNone) {
  HttpTestServer server([](const Request&) {
    return Reply{.raw = {"HTTP/1.1 103 Early Hints\r\n", "\r\nHTTP/1.", "1 200 O",
                         "K\r\nContent-Len", "gth: 2\r\n\r\n", "o", "k"}};
  });
  make({.url = server.url()});
  EXPECT_EQ(handle("1").outcome.kind, Outcome::kDone);
}

TEST_F(HttpHandler, WhatIsNoHttpIsARetry) {
  HttpTestServer server([](const Request&) { return Reply{.raw = {"SSH-2.0-OpenSSH\r\n"}}; });
  make({.url = server.url()});
  EXPECT_EQ(handle("1").outcome.kind, Outcome::kRetry);
}

TEST_F(HttpHandler, OfAnEndlessAnswerOnlyTheStatusMatters) {
  HttpTestServer server([](const Request&) { return Reply{.body = std::string(5 << 20, 'x')}; });
  make({.url = server.url()});
  EXPECT_EQ(handle("1").outcome.kind, Outcome::kDone);
  EXPECT_EQ(handle("2").outcome.kind, Outcome::kDone);
  EXPECT_EQ(server.connections(), 2u);
}

TEST_F(HttpHandler, AnAnswerThatBreaksOffStillHasItsStatus) {
  HttpTestServer server([](const Request&) {
    return Reply{.raw = {"HTTP/1.1 500 Oh\r\nContent-Length: 999999999999999999\r\n\r\nso mu"}};
  });
  make({.url = server.url()});
  EXPECT_EQ(handle("1").outcome.reason, "HTTP 500 Oh: so mu");
}

TEST_F(HttpHandler, ALargeRecordIsPosted) {
  std::size_t bytes = 0;
  HttpTestServer server([&](const Request& request) {
    bytes = request.body().size();
    return Reply{};
  });
  make({.url = server.url()});
  EXPECT_EQ(handle(std::string(50'000'000, 'x')).outcome.kind, Outcome::kDone);
  EXPECT_EQ(bytes, 50'000'000u);
}

TEST_F(HttpHandler, OneThatHangsTimesOut) {
  HttpTestServer server([](const Request&) { return Reply{.hangs = true}; });
  make({.url = server.url(), .timeout = 50ms});
  for (int i = 0; i < 3; ++i) {
    const Handled handled = handle("1");
    EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
    EXPECT_EQ(handled.outcome.reason, "took longer than 50 ms");
    EXPECT_TRUE(handled.timed_out);
  }
}

TEST_F(HttpHandler, AServerThatIsNotThereIsARetry) {
  std::string url;
  {
    HttpTestServer server([](const Request&) { return Reply{}; });
    url = server.url();
  }
  make({.url = url});
  const Handled handled = handle("1");
  EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
  EXPECT_NE(handled.outcome.reason.find("cannot reach 127.0.0.1:"), std::string::npos);
  EXPECT_NE(handled.outcome.reason.find("Connection refused"), std::string::npos);
}

TEST_F(HttpHandler, ManyAtOnceShareTheConnections) {
  HttpTestServer server([](const Request&) { return Reply{}; });
  make({.url = server.url(), .connections = 3});
  const TestRecord record("1");
  std::vector<Task<Handled>> tasks;
  for (int i = 0; i < 60; ++i) tasks.push_back(handler_->handle(record.call()));
  for (const Handled& handled : sync_wait(loop_, when_all(std::move(tasks)))) {
    EXPECT_EQ(handled.outcome.kind, Outcome::kDone);
  }
  EXPECT_EQ(server.connections(), 3u);
}

struct EndLater final : Timer {
  explicit EndLater(Handler& of) : handler(of) {}
  void fire() override {
    running = handler.describe_running();
    handler.end(SIGTERM);
  }
  Handler& handler;
  std::string running;
};

TEST_F(HttpHandler, EndEndsWhatRunsAndWhatWaits) {
  std::latch has_one(1);
  HttpTestServer server([&](const Request&) {
    has_one.count_down();
    return Reply{.hangs = true};
  });
  make({.url = server.url(), .connections = 1});
  const TestRecord record("1");
  std::vector<Task<Handled>> tasks;
  for (int i = 0; i < 3; ++i) tasks.push_back(handler_->handle(record.call()));
  EndLater later(*handler_);
  std::thread waits([&] {
    has_one.wait();
    loop_.add_timer(later, loop_.now());
  });
  for (const Handled& handled : sync_wait(loop_, when_all(std::move(tasks)))) {
    EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
    EXPECT_EQ(handled.outcome.reason, "the run ends");
    EXPECT_FALSE(handled.timed_out);
  }
  waits.join();
  EXPECT_NE(later.running.find("f:7  key u7  try 1  since "), std::string::npos);
  EXPECT_EQ(handle("2").outcome.reason, "the run ends");
}

TEST_F(HttpHandler, AUrlThatIsNoneIsRefused) {
  const Result<std::unique_ptr<Handler>> made = make_http_handler({.url = "localhost"}, loop_);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
}

// A certificate for 127.0.0.1 that nobody has signed but itself.
class SelfSigned {
 public:
  SelfSigned() {
    EVP_PKEY* key = EVP_RSA_gen(2048);
    X509* certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("keyway test"), -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_EXTENSION* address =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(certificate, address, -1);
    X509_sign(certificate, key, EVP_sha256());
    FILE* file = std::fopen(certificate_file().c_str(), "w");
    PEM_write_X509(file, certificate);
    std::fclose(file);
    file = std::fopen(key_file().c_str(), "w");
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    X509_EXTENSION_free(address);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  std::string certificate_file() const { return folder_.file("certificate.pem"); }
  std::string key_file() const { return folder_.file("key.pem"); }

 private:
  TemporaryFolder folder_;
};

TEST_F(HttpHandler, AnHttpsServerMustBeTrustedAndBeTheOneThatIsNamed) {
  const SelfSigned self;
  HttpTestServer server([](const Request&) { return Reply{.body = "ok"}; }, self.certificate_file(),
                        self.key_file());
  make({.url = server.url()});
  Handled handled = handle("1");
  EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
  EXPECT_NE(handled.outcome.reason.find("certificate"), std::string::npos)
      << handled.outcome.reason;

  setenv("SSL_CERT_FILE", self.certificate_file().c_str(), 1);
  make({.url = server.url()});
  for (int i = 0; i < 3; ++i) {
    handled = handle("1");
    EXPECT_EQ(handled.outcome.kind, Outcome::kDone) << handled.outcome.reason;
  }
  std::string other_name = server.url();
  other_name.replace(other_name.find("127.0.0.1"), 9, "localhost");
  make({.url = other_name});
  handled = handle("1");
  unsetenv("SSL_CERT_FILE");
  EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
  EXPECT_NE(handled.outcome.reason.find("certificate"), std::string::npos)
      << handled.outcome.reason;
}

}  // namespace
}  // namespace keyway::run
