// Requests to one server, over connections that are kept.
//
// Guarantees:
//   (1) At most `connections` are open; who finds none free waits for one, in order.
//   (2) A kept connection that the server has closed, before a byte of the answer came, is replaced once by a new one
//       within the same exchange.
//   (3) Of an https server the certificate is verified, against the system's authorities or those of SSL_CERT_FILE and
//       SSL_CERT_DIR, and its name.
//   (4) An exchange takes no longer than the timeout, from when it has its connection; but for the look-up of the
//       host's name, which has the system's own.
//   (5) No redirect is followed, no proxy asked; of an answer 1 MiB is read at most.
//
// Thread safety: every method from any thread. The exchanges happen on one thread of its own.
// Lifetime: outlives its exchanges.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "handlers/http_url.h"
#include "keyway/scheduler.h"

namespace keyway::run {

// One request and what came of it.
class HttpExchange {
 public:
  // Before it is started. What they point to is there until done().
  std::vector<std::pair<std::string_view, std::string>> headers;
  std::string_view body;

  // After it is done.
  int status = 0;           // 0: there was no answer
  std::string phrase;       // "Not Found"
  std::string retry_after;  // the headers
  std::string location;
  std::string answer;   // the begin of the body
  std::string failure;  // why there was no answer
  bool timed_out = false;

  // Called once, last, on the client's thread.
  virtual void done() noexcept = 0;

 protected:
  ~HttpExchange() = default;
};

class HttpClient {
 public:
  static constexpr std::size_t kMostBodyBytes = 1 << 20;
  static constexpr std::size_t kKeptBodyBytes = 1024;

  // Throws Exception (kIo) if there is no thread to be had, or no authorities to trust.
  HttpClient(HttpUrl url, int connections, Duration timeout);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void start(HttpExchange& exchange);
  // Those that run and those that wait end soon, without an answer; later ones at once.
  void cancel_all();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keyway::run
