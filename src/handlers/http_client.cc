#include "handlers/http_client.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include "keyway/error.h"

namespace keyway::run {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace ssl = boost::asio::ssl;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

// In place of a callback: the coroutine goes on, and `failed` says whether it worked.
auto resume(error_code& failed) { return asio::redirect_error(asio::use_awaitable, failed); }

// A server that writes an answer in two parts, and has Nagle's algorithm on, sends the second one when it knows that the
// first has come: after 40 ms, if that is left to the kernel. It forgets the wish with what is sent next.
void answer_packets_at_once(Tcp::socket& socket) {
  const int yes = 1;
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_QUICKACK, &yes, sizeof yes);
}

bool is_ip_address(const std::string& host) {
  error_code failed;
  asio::ip::make_address(host, failed);
  return !failed;
}

}  // namespace

class HttpClient::Impl {
 public:
  Impl(HttpUrl url, int connections, Duration timeout);
  ~Impl();

  void start(HttpExchange& exchange);
  void cancel_all();

 private:
  struct Connection {
    beast::tcp_stream& lowest() { return tls ? beast::get_lowest_layer(*tls) : *plain; }
    std::optional<beast::tcp_stream> plain;
    std::optional<TlsStream> tls;
    beast::flat_buffer buffer;
    std::array<char, 16 * 1024> chunk;  // of a body
    bool kept = false;                  // it has served before
  };
  enum class Ending { kAnswered, kFailed, kClosedBefore };

  // All on its thread.
  void start_next();
  asio::awaitable<void> run(HttpExchange* exchange);
  asio::awaitable<void> talk(HttpExchange* exchange);
  asio::awaitable<bool> open(Connection* connection, HttpExchange* exchange);
  asio::awaitable<Ending> converse(Connection* connection, HttpExchange* exchange);
  template <class Stream>
  asio::awaitable<Ending> converse_over(Stream* stream, Connection* connection,
                                        HttpExchange* exchange);
  void fail(HttpExchange& exchange, std::string_view what, const error_code& why) const;
  std::unique_ptr<Connection> make_connection();

  // Constant after construction.
  const HttpUrl url_;
  const std::size_t most_;
  const Duration timeout_;

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  ssl::context tls_{ssl::context::tls_client};

  // Of its thread.
  std::deque<HttpExchange*> waiting_;
  std::size_t running_ = 0;
  std::set<Connection*> used_;
  std::vector<std::unique_ptr<Connection>> kept_;
  bool cancelled_ = false;

  std::thread thread_;
};

HttpClient::Impl::Impl(HttpUrl url, int connections, Duration timeout)
    : url_(std::move(url)), most_(static_cast<std::size_t>(connections)), timeout_(timeout) {
  if (url_.is_https) {
    error_code failed;
    if (tls_.set_default_verify_paths(failed)) {
      throw Exception({ErrorCode::kIo, "cannot read the certificates to trust: " +
                                           failed.message() + "\n  try: SSL_CERT_FILE=FILE"});
    }
    tls_.set_verify_mode(ssl::verify_peer);
    tls_.set_verify_callback(ssl::host_name_verification(url_.host));
  }
  // Signals are for the threads that wait for them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { io_.run(); });
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Exception({ErrorCode::kIo, std::string("cannot start a thread: ") + error.what()});
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

HttpClient::Impl::~Impl() {
  io_.stop();
  thread_.join();
}

void HttpClient::Impl::start(HttpExchange& exchange) {
  asio::post(io_, [this, &exchange] {
    waiting_.push_back(&exchange);
    start_next();
  });
}

void HttpClient::Impl::cancel_all() {
  asio::post(io_, [this] {
    cancelled_ = true;
    for (Connection* connection : used_) connection->lowest().close();
    start_next();
  });
}

void HttpClient::Impl::start_next() {
  while (!waiting_.empty() && (cancelled_ || running_ < most_)) {
    HttpExchange* exchange = waiting_.front();
    waiting_.pop_front();
    ++running_;
    asio::co_spawn(io_, run(exchange), asio::detached);
  }
}

asio::awaitable<void> HttpClient::Impl::run(HttpExchange* exchange) {
  try {
    co_await talk(exchange);
  } catch (const std::exception& error) {
    exchange->failure = error.what();
  }
  --running_;
  start_next();
  exchange->done();
}

asio::awaitable<void> HttpClient::Impl::talk(HttpExchange* exchange) {
  // A kept connection first; if that was closed meanwhile, a new one.
  for (int i = 0; i < 2; ++i) {
    if (cancelled_) {
      exchange->failure = "the run ends";
      co_return;
    }
    std::unique_ptr<Connection> connection;
    if (i == 0 && !kept_.empty()) {
      connection = std::move(kept_.back());
      kept_.pop_back();
    } else {
      connection = make_connection();
    }
    used_.insert(connection.get());
    connection->lowest().expires_after(timeout_);
    Ending ending = Ending::kFailed;
    const bool is_open = connection->kept || co_await open(connection.get(), exchange);
    if (is_open) ending = co_await converse(connection.get(), exchange);
    used_.erase(connection.get());
    if (cancelled_ && exchange->status == 0) exchange->failure = "the run ends";
    if (ending == Ending::kClosedBefore) continue;
    if (ending == Ending::kAnswered && connection->kept && !cancelled_) {
      connection->lowest().expires_never();
      kept_.push_back(std::move(connection));
    }
    co_return;
  }
}

std::unique_ptr<HttpClient::Impl::Connection> HttpClient::Impl::make_connection() {
  auto connection = std::make_unique<Connection>();
  if (url_.is_https) {
    connection->tls.emplace(io_, tls_);
  } else {
    connection->plain.emplace(io_);
  }
  return connection;
}

void HttpClient::Impl::fail(HttpExchange& exchange, std::string_view what,
                            const error_code& why) const {
  exchange.timed_out = why == beast::error::timeout;
  exchange.failure = std::string(what) + " " + url_.authority() + ": " + why.message();
}

asio::awaitable<bool> HttpClient::Impl::open(Connection* connection, HttpExchange* exchange) {
  error_code failed;
  Tcp::resolver resolver(io_);
  const Tcp::resolver::results_type found =
      co_await resolver.async_resolve(url_.host, url_.port, resume(failed));
  // A look-up cannot be taken back: the socket is not open yet when all is cancelled.
  if (cancelled_) failed = asio::error::operation_aborted;
  if (!failed) co_await connection->lowest().async_connect(found, resume(failed));
  if (failed) {
    fail(*exchange, "cannot reach", failed);
    co_return false;
  }
  // Without it, it would be slower.
  std::ignore = connection->lowest().socket().set_option(Tcp::no_delay(true), failed);
  if (!connection->tls) co_return true;
  TlsStream& tls = *connection->tls;
  if (!is_ip_address(url_.host)) SSL_set_tlsext_host_name(tls.native_handle(), url_.host.c_str());
  co_await tls.async_handshake(ssl::stream_base::client, resume(failed));
  if (!failed) co_return true;
  fail(*exchange, "cannot speak TLS with", failed);
  const long verified = SSL_get_verify_result(tls.native_handle());
  if (verified != X509_V_OK) {
    exchange->failure += std::string(" (") + X509_verify_cert_error_string(verified) + ")";
  }
  co_return false;
}

asio::awaitable<HttpClient::Impl::Ending> HttpClient::Impl::converse(Connection* connection,
                                                                     HttpExchange* exchange) {
  if (connection->tls) {
    co_return co_await converse_over(&*connection->tls, connection, exchange);
  }
  co_return co_await converse_over(&*connection->plain, connection, exchange);
}

template <class Stream>
asio::awaitable<HttpClient::Impl::Ending> HttpClient::Impl::converse_over(Stream* stream,
                                                                          Connection* connection,
                                                                          HttpExchange* exchange) {
  error_code failed;
  http::request<http::span_body<const char>> request(http::verb::post, url_.target, 11);
  request.set(http::field::host, url_.authority());
  request.set(http::field::user_agent, "keyway");
  for (const auto& [name, value] : exchange->headers) request.set(name, value);
  request.body() = {exchange->body.data(), exchange->body.size()};
  request.prepare_payload();
  co_await http::async_write(*stream, request, resume(failed));
  const bool was_written = !failed;
  answer_packets_at_once(connection->lowest().socket());

  // A server that does not want the rest of a request may have answered all the same.
  std::optional<http::response_parser<http::buffer_body>> parser;
  for (int informational = 0; informational < 8; ++informational) {
    parser.emplace();
    parser->body_limit(boost::none);
    error_code not_read;
    if (failed != beast::error::timeout) {
      co_await http::async_read_header(*stream, connection->buffer, *parser, resume(not_read));
      if (not_read && was_written) failed = not_read;
      if (!not_read) failed = {};
    }
    if (failed ||
        http::to_status_class(parser->get().result_int()) != http::status_class::informational) {
      break;
    }
  }
  if (failed) {
    const bool has_begun = parser->got_some() || connection->buffer.size() > 0;
    const bool is_ours =
        failed == beast::error::timeout || failed == asio::error::operation_aborted;
    if (connection->kept && !has_begun && !is_ours && !cancelled_) co_return Ending::kClosedBefore;
    fail(*exchange, "no answer from", failed);
    co_return Ending::kFailed;
  }
  // The status says what became of the record, even if the rest does not come.
  std::size_t body_bytes = 0;
  while (!failed && !parser->is_done() && body_bytes < kMostBodyBytes) {
    auto& body = parser->get().body();
    body.data = connection->chunk.data();
    body.size = connection->chunk.size();
    co_await http::async_read(*stream, connection->buffer, *parser, resume(failed));
    if (failed == http::error::need_buffer) failed = {};
    const std::size_t got = connection->chunk.size() - body.size;
    body_bytes += got;
    const std::size_t room = kKeptBodyBytes - exchange->answer.size();
    exchange->answer.append(connection->chunk.data(), std::min(got, room));
  }
  const auto& answer = parser->get();
  exchange->status = static_cast<int>(answer.result_int());
  exchange->phrase = answer.reason();
  exchange->retry_after = answer[http::field::retry_after];
  exchange->location = answer[http::field::location];
  connection->kept = !failed && was_written && parser->is_done() && parser->keep_alive();
  co_return Ending::kAnswered;
}

HttpClient::HttpClient(HttpUrl url, int connections, Duration timeout)
    : impl_(std::make_unique<Impl>(std::move(url), connections, timeout)) {}
HttpClient::~HttpClient() = default;
void HttpClient::start(HttpExchange& exchange) { impl_->start(exchange); }
void HttpClient::cancel_all() { impl_->cancel_all(); }

}  // namespace keyway::run
