// What is behind HttpServer: the door, and a client.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <atomic>
#include <set>

#include "server/http.hpp"
#include "server/stream.hpp"

namespace bantam::server {

class Connection;

struct HttpServer::Impl {
  Impl(const HttpAddress& address, HttpLimits l);
  ~Impl();

  void accept();
  void sweep();
  /// Takes no more connections.
  void close_door();

  const HttpLimits limits;
  const std::shared_ptr<std::atomic<bool>> runs = std::make_shared<std::atomic<bool>>(true);
  boost::asio::io_context context{1};
  boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol> acceptor;
  boost::asio::steady_timer sweep_timer, accept_timer;
  boost::asio::signal_set signals;
  TlsContext tls;
  std::string url;
  HttpCheck check;
  HttpHandler handler;
  HttpRefusal refuse;
  std::set<std::shared_ptr<Connection>> connections;
  bool closing = false;

 private:
  void bind_tcp(const std::string& host, int port);
  void bind_unix(const std::string& path);
  /// Takes over a socket that listens.
  void take(int socket);

  std::string socket_file_;  ///< of a Unix socket, which goes with the door; empty: another kind
};

/// One client. Everything happens on the server's thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(HttpServer::Impl& server, Stream::Socket socket);

  void start();
  /// Too many are there already.
  void turn_away();
  void check_time(std::chrono::steady_clock::time_point now);
  void close_when_idle() {
    closes_ = true;
    if (state_ == State::waiting && !writing_) close();
  }
  [[nodiscard]] bool is_answering() const { return state_ == State::answering || writing_; }

  // Of the answer at hand; `number` tells it from those before.
  void reply(std::uint64_t number, HttpReply reply) {
    if (number == number_ && state_ == State::answering && !streams_) write_reply(std::move(reply));
  }
  void expect_stream(std::uint64_t number, StreamForm form) {
    if (number != number_ || state_ != State::answering) return;
    awaits_stream_ = true;
    form_ = form;
  }
  void send(std::uint64_t number, const std::string& events) {
    if (number != number_ || state_ != State::answering) return;
    if (!streams_) begin_stream();
    write_chunk(events);
  }
  void end(std::uint64_t number) {
    if (number != number_ || state_ != State::answering || !streams_) return;
    if (version_ >= 11 && !omits_body_) write("0\r\n\r\n");
    answered();
  }
  /// Nobody is left who could answer.
  void abandon(std::uint64_t number) {
    if (number != number_ || state_ != State::answering) return;
    if (streams_) return close();
    write_reply(server_.refuse(500, "server_error", "the server lost this request", {}));
  }
  void on_gone(std::uint64_t number, std::function<void()> f) {
    if (number != number_ || state_ == State::closed) return f();
    if (state_ == State::answering) gone_ = std::move(f);
  }

 private:
  /// waiting: for the next request; reading: its body; answering; finishing: the answer is whole, and not all of it written; lingering: what
  /// the client still sends is thrown away.
  enum class State { waiting, reading, answering, finishing, lingering, closed };

  void read_request(std::chrono::seconds time);
  void read_body();
  void refuse(HttpReply reply);
  void refuse(boost::system::error_code code, std::string_view path = {});
  void watch();
  void write(std::string bytes);
  void write_next();
  void write_reply(HttpReply reply);
  void begin_stream();
  void write_chunk(const std::string& bytes);
  void answered();
  void linger();
  void say_end();
  void close();
  [[nodiscard]] std::string head(int status, std::string_view type, const HttpHeaders& headers) const;

  HttpServer::Impl& server_;
  Stream stream_;
  std::string peer_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  State state_ = State::waiting;
  std::uint64_t number_ = 0;
  HttpHeaders more_;            ///< that go with the answer, whatever it is
  unsigned version_ = 11;
  bool omits_body_ = false;     ///< HEAD
  bool closes_ = false;         ///< with this answer
  bool streams_ = false, awaits_stream_ = false;
  StreamForm form_ = server_sent_events;
  bool watching_ = false;       ///< a read is pending that notices the end
  bool writing_ = false;
  std::string to_write_, being_written_;
  std::function<void()> gone_;
  using Time = std::chrono::steady_clock::time_point;
  Time read_by_ = Time::max(), write_by_ = Time::max(), said_ = std::chrono::steady_clock::now();
};

}  // namespace bantam::server
