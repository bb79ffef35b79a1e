// A server on the loopback that does with each request what a test says.
//
//   HttpTestServer server([](const HttpTestServer::Request& request) { return HttpTestServer::Reply{.status = 503}; });
//   ... server.url("/path") ...
//
// Thread safety: the script is called by one thread at a time.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

namespace keyway::run {

class HttpTestServer {
 public:
  using Request = boost::beast::http::request<boost::beast::http::string_body>;
  struct Reply {
    int status = 200;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
    bool closes_before = false;    // without an answer
    bool closes_after = false;     // and does not say so
    bool hangs = false;            // until the client gives up
    std::vector<std::string> raw;  // instead of all the others, piece by piece
  };
  using Script = std::function<Reply(const Request&)>;

  // With PEM files: https.
  explicit HttpTestServer(Script script, const std::string& certificate = {},
                          const std::string& key = {})
      : script_(std::move(script)) {
    if (!certificate.empty()) {
      tls_.emplace(boost::asio::ssl::context::tls_server);
      tls_->use_certificate_chain_file(certificate);
      tls_->use_private_key_file(key, boost::asio::ssl::context::pem);
    }
    acceptor_.listen();
    thread_ = std::thread([this] { accept(); });
  }
  ~HttpTestServer() {
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
    {
      const std::lock_guard lock(mutex_);
      for (Connection& connection : connections_) {
        ::shutdown(connection.socket.native_handle(), SHUT_RDWR);
      }
    }
    for (Connection& connection : connections_) connection.thread.join();
  }
  HttpTestServer(const HttpTestServer&) = delete;
  HttpTestServer& operator=(const HttpTestServer&) = delete;

  std::string url(const std::string& target = "/") const {
    return (tls_ ? "https://127.0.0.1:" : "http://127.0.0.1:") +
           std::to_string(acceptor_.local_endpoint().port()) + target;
  }
  std::size_t connections() {
    const std::lock_guard lock(mutex_);
    return connections_.size();
  }

 private:
  using Tcp = boost::asio::ip::tcp;
  struct Connection {
    explicit Connection(Tcp::socket accepted) : socket(std::move(accepted)) {}
    Tcp::socket socket;
    std::thread thread;
  };

  void accept() {
    for (;;) {
      boost::system::error_code failed;
      Tcp::socket socket = acceptor_.accept(failed);
      if (failed) return;
      const std::lock_guard lock(mutex_);
      Connection& connection = connections_.emplace_back(std::move(socket));
      connection.thread = std::thread([this, &connection] { serve(connection); });
    }
  }

  void serve(Connection& connection) {
    boost::system::error_code failed;
    if (tls_) {
      boost::asio::ssl::stream<Tcp::socket&> stream(connection.socket, *tls_);
      stream.handshake(boost::asio::ssl::stream_base::server, failed);
      if (!failed) talk(stream);
    } else {
      talk(connection.socket);
    }
    ::shutdown(connection.socket.native_handle(), SHUT_RDWR);
  }

  template <class Stream>
  void talk(Stream& stream) {
    namespace http = boost::beast::http;
    boost::system::error_code failed;
    boost::beast::flat_buffer buffer;
    for (;;) {
      http::request_parser<http::string_body> parser;
      parser.body_limit(std::size_t{1} << 30);
      http::read(stream, buffer, parser, failed);
      if (failed) return;
      Reply reply;
      {
        const std::lock_guard lock(script_mutex_);
        reply = script_(parser.get());
      }
      if (reply.closes_before) return;
      if (reply.hangs) {
        char unused = 0;
        stream.read_some(boost::asio::buffer(&unused, 1), failed);
        return;
      }
      for (const std::string& piece : reply.raw) {
        boost::asio::write(stream, boost::asio::buffer(piece), failed);
      }
      if (!reply.raw.empty()) return;
      http::response<http::string_body> response(
          static_cast<http::status>(static_cast<unsigned>(reply.status)), 11);
      for (const auto& [name, value] : reply.headers) response.set(name, value);
      response.body() = reply.body;
      response.prepare_payload();
      http::write(stream, response, failed);
      if (failed || reply.closes_after) return;
    }
  }

  const Script script_;
  std::mutex script_mutex_;
  boost::asio::io_context io_;
  std::optional<boost::asio::ssl::context> tls_;
  Tcp::acceptor acceptor_{io_, Tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)};
  std::mutex mutex_;
  std::list<Connection> connections_;
  std::thread thread_;
};

}  // namespace keyway::run
