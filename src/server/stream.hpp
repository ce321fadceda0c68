// A connection's bytes: a socket of any kind, with TLS or without.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#ifdef BANTAM_HAS_TLS
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#endif

#include <optional>
#include <string>
#include <utility>

#include "bantam/core/error.hpp"

namespace bantam::server {

/// The key and the certificate that a server shows, if it has any.
class TlsContext {
 public:
  /// Files in PEM; both empty: without. Throws bantam::Error.
  TlsContext(const std::string& key_file, const std::string& certificate_file);

#ifdef BANTAM_HAS_TLS
  [[nodiscard]] bool is_on() const noexcept { return context_.has_value(); }
  [[nodiscard]] boost::asio::ssl::context& get() noexcept { return *context_; }

 private:
  std::optional<boost::asio::ssl::context> context_;
#else
  [[nodiscard]] bool is_on() const noexcept { return false; }
#endif
};

/// What operations of Asio and Beast read from and write to.
class Stream {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using executor_type = Socket::executor_type;

#ifdef BANTAM_HAS_TLS
  Stream(Socket socket, TlsContext& tls) : socket_(std::move(socket)) {
    if (tls.is_on()) tls_.emplace(socket_, tls.get());
  }
  [[nodiscard]] bool has_tls() const noexcept { return tls_.has_value(); }
  /// Begins TLS, as its server.
  template <class Handler>
  void greet(Handler&& handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Handler>(handler));
  }
  /// Ends it.
  template <class Handler>
  void say_end(Handler&& handler) {
    tls_->async_shutdown(std::forward<Handler>(handler));
  }
#else
  Stream(Socket socket, TlsContext&) : socket_(std::move(socket)) {}
  [[nodiscard]] bool has_tls() const noexcept { return false; }
  template <class Handler>
  void greet(Handler&&) {}
  template <class Handler>
  void say_end(Handler&&) {}
#endif
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] executor_type get_executor() noexcept { return socket_.get_executor(); }
  [[nodiscard]] Socket& socket() noexcept { return socket_; }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
#ifdef BANTAM_HAS_TLS
    if (tls_) {
      tls_->async_read_some(buffers, std::forward<Handler>(handler));
      return;
    }
#endif
    socket_.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
#ifdef BANTAM_HAS_TLS
    if (tls_) {
      tls_->async_write_some(buffers, std::forward<Handler>(handler));
      return;
    }
#endif
    socket_.async_write_some(buffers, std::forward<Handler>(handler));
  }

 private:
  Socket socket_;
#ifdef BANTAM_HAS_TLS
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
#endif
};

}  // namespace bantam::server
