// Connections: reading requests, writing answers, noticing who went away.
#include "server/connection.hpp"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include <charconv>
#include <cstring>

#include "bantam/core/message.hpp"

namespace bantam::server {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Code = boost::system::error_code;
using Clock = std::chrono::steady_clock;

std::string_view text_of(beast::string_view text) { return {text.data(), text.size()}; }

std::string_view reason_of(int status) {
  const beast::string_view reason = http::obsolete_reason(static_cast<http::status>(status));
  return status == 429 ? "Too Many Requests" : text_of(reason);
}

/// Of what was sent, not of the connection.
bool is_http_error(Code code) {
  const Code one = http::error::bad_method;
  return code.category() == one.category() && code != http::error::end_of_stream && code != http::error::partial_message;
}

/// What handlers hold of a connection: calls come from any thread and are carried out on the server's. Those that come from there are so at
/// once: what it posts itself may come after what other threads post later.
class Answer final : public Exchange {
 public:
  Answer(std::shared_ptr<Connection> connection, HttpServer::Impl& server, std::uint64_t number, HttpRequest request)
      : connection_(std::move(connection)), context_(server.context), runs_(server.runs), number_(number), request_(std::move(request)) {}
  ~Answer() override {
    if (!*runs_) return;
    try {
      // Never at once: an answer may be on its way from another thread.
      asio::post(context_, [c = connection_, n = number_] { c->abandon(n); });
    } catch (const std::exception&) {
      // The client waits until it has enough of that.
    }
  }

  [[nodiscard]] const HttpRequest& request() const noexcept override { return request_; }
  void reply(HttpReply reply) override {
    asio::dispatch(context_, [c = connection_, n = number_, reply = std::move(reply)]() mutable { c->reply(n, std::move(reply)); });
  }
  void expect_stream(StreamForm form) override {
    asio::dispatch(context_, [c = connection_, n = number_, form] { c->expect_stream(n, form); });
  }
  void send(std::string events) override {
    asio::dispatch(context_, [c = connection_, n = number_, events = std::move(events)] { c->send(n, events); });
  }
  void end() override {
    asio::dispatch(context_, [c = connection_, n = number_] { c->end(n); });
  }
  void on_gone(std::function<void()> f) override {
    asio::dispatch(context_, [c = connection_, n = number_, f = std::move(f)]() mutable { c->on_gone(n, std::move(f)); });
  }

 private:
  const std::shared_ptr<Connection> connection_;
  asio::io_context& context_;
  const std::shared_ptr<const std::atomic<bool>> runs_;  ///< the context
  const std::uint64_t number_;
  const HttpRequest request_;
};

}  // namespace

Connection::Connection(HttpServer::Impl& server, Stream::Socket socket) : server_(server), stream_(std::move(socket), server.tls) {
  Code ignored;
  const auto from = stream_.socket().remote_endpoint(ignored);
  if (ignored) return;
  using Tcp = asio::ip::tcp;
  Tcp::endpoint address;
  if (from.protocol().family() != AF_INET && from.protocol().family() != AF_INET6) {
    peer_ = "unix";
    return;
  }
  stream_.socket().set_option(Tcp::no_delay(true), ignored);
  std::memcpy(address.data(), from.data(), std::min(from.size(), address.capacity()));
  peer_ = address.address().to_string();
}

void Connection::start() {
  if (!stream_.has_tls()) return read_request(server_.limits.header_time);
  read_by_ = Clock::now() + server_.limits.header_time;
  stream_.greet([self = shared_from_this()](Code code) {
    if (self->state_ == State::closed) return;
    code ? self->close() : self->read_request(self->server_.limits.header_time);
  });
}

void Connection::turn_away() {
  // A handshake costs more than what is to be said.
  if (stream_.has_tls()) return close();
  HttpReply reply = server_.refuse(503, "overloaded_error", "too many connections", {});
  reply.headers.emplace_back("Retry-After", "1");
  refuse(std::move(reply));
}

void Connection::read_request(std::chrono::seconds time) {
  state_ = State::waiting;
  streams_ = awaits_stream_ = omits_body_ = false;
  form_ = server_sent_events;
  more_.clear();
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(server_.limits.header_bytes));
  parser_->body_limit(server_.limits.body_bytes);
  read_by_ = Clock::now() + time;
  http::async_read_header(stream_, buffer_, *parser_, [self = shared_from_this()](Code code, std::size_t) {
    if (self->state_ == State::closed) return;
    if (code && !is_http_error(code)) return self->close();
    self->version_ = self->parser_->get().version();
    // Too large a body shows here, behind the path.
    if (code) return self->refuse(code, text_of(self->parser_->get().target()));
    self->read_body();
  });
}

/// Behind the header: what needs no body to be refused is refused.
void Connection::read_body() {
  state_ = State::reading;
  const auto& head = parser_->get();
  closes_ = closes_ || server_.closing || !head.keep_alive();
  omits_body_ = head.method() == http::verb::head;
  if (version_ >= 11 && head.find(http::field::host) == head.end()) return refuse(Code(http::error::bad_field));
  const std::string_view target = text_of(head.target());
  const std::size_t path_bytes = std::min(target.find('?'), target.size());
  HttpRequest request{.method = std::string(text_of(head.method_string())),
                      .path = std::string(target.substr(0, path_bytes)),
                      .query = std::string(target.substr(std::min(path_bytes + 1, target.size()))),
                      .authorization = std::string(text_of(head[http::field::authorization])),
                      .api_key = std::string(text_of(head["X-Api-Key"])),
                      .peer = peer_};
  if (omits_body_) request.method = "GET";
  if (std::optional<HttpReply> refused = server_.check(request, more_)) {
    // The next request is behind the body, which nobody reads.
    if (!parser_->is_done()) return refuse(*std::move(refused));
    state_ = State::answering;
    ++number_;
    watch();
    return write_reply(*std::move(refused));
  }
  if (beast::iequals(head[http::field::expect], "100-continue")) write("HTTP/1.1 100 Continue\r\n\r\n");
  read_by_ = Clock::now() + server_.limits.body_time;
  http::async_read(stream_, buffer_, *parser_, [self = shared_from_this(), request = std::move(request)](Code code, std::size_t) mutable {
    if (self->state_ == State::closed) return;
    if (code && !is_http_error(code)) return self->close();
    if (code) return self->refuse(code, request.path);
    request.body = std::move(self->parser_->get().body());
    self->parser_.reset();
    self->state_ = State::answering;
    self->read_by_ = Clock::time_point::max();
    self->said_ = Clock::now();
    const auto answer = std::make_shared<Answer>(self, self->server_, ++self->number_, std::move(request));
    self->watch();
    self->server_.handler(answer);
  });
}

/// Answers what cannot be read on, and closes.
void Connection::refuse(HttpReply reply) {
  closes_ = true;
  state_ = State::answering;
  ++number_;
  write_reply(std::move(reply));
}

/// The same of bytes that are no request.
void Connection::refuse(Code code, std::string_view path) {
  constexpr std::string_view type = "invalid_request_error";
  if (code == http::error::body_limit) return refuse(server_.refuse(413, type, "the body is larger than this server takes", path));
  if (code == http::error::header_limit) return refuse(server_.refuse(431, type, "the header is larger than this server takes", path));
  refuse(server_.refuse(400, type, "this is no request of HTTP/1.1", path));
}

/// Reads on while an answer is made: who went away is noticed, and what comes is the next request's.
void Connection::watch() {
  constexpr std::size_t most_ahead = std::size_t{64} << 10, piece = 4096;
  if (watching_ || buffer_.size() >= most_ahead) return;
  watching_ = true;
  read_by_ = Clock::time_point::max();
  stream_.async_read_some(buffer_.prepare(piece), [self = shared_from_this()](Code code, std::size_t count) {
    self->watching_ = false;
    if (self->state_ == State::closed) return;
    // Called off: what came before is the next request.
    if (code == asio::error::operation_aborted && self->state_ == State::waiting)
      return self->read_request(self->server_.limits.header_time);
    // Called off as well: nothing else may read while the end is said.
    if (self->state_ == State::lingering && self->stream_.has_tls()) return self->say_end();
    if (code) return self->close();
    if (self->state_ == State::lingering) return self->linger();
    self->buffer_.commit(count);
    if (self->state_ == State::waiting) return self->read_request(self->server_.limits.header_time);
    if (self->state_ == State::answering) self->watch();
  });
}

std::string Connection::head(int status, std::string_view type, const HttpHeaders& headers) const {
  std::string out = message("HTTP/1.1 ", status, ' ', reason_of(status), "\r\n");
  if (!type.empty()) out += message("Content-Type: ", type, "\r\n");
  for (const HttpHeaders* list : {&headers, &more_}) {
    for (const auto& [name, value] : *list) out += message(name, ": ", value, "\r\n");
  }
  out += "Access-Control-Allow-Origin: *\r\n";
  out += closes_ ? "Connection: close\r\n" : version_ < 11 ? "Connection: keep-alive\r\n" : "";
  return out;
}

void Connection::write_reply(HttpReply reply) {
  std::string bytes = head(reply.status, reply.type, reply.headers);
  if (reply.status != 204) bytes += message("Content-Length: ", reply.body.size(), "\r\n");
  bytes += "\r\n";
  if (!omits_body_) bytes += reply.body;
  write(std::move(bytes));
  answered();
}

void Connection::begin_stream() {
  streams_ = true;
  // Nothing but the end of the connection tells older clients where it ends.
  if (version_ < 11) closes_ = true;
  write(head(200, form_.type, {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}) +
        (version_ >= 11 ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n"));
}

void Connection::write_chunk(const std::string& bytes) {
  if (bytes.empty() || omits_body_) return;
  char size[20];
  const auto end = std::to_chars(size, size + sizeof size, bytes.size(), 16).ptr;
  write(version_ < 11 ? bytes : message(std::string_view(size, end), "\r\n", bytes, "\r\n"));
}

void Connection::answered() {
  gone_ = {};
  // The next one is begun when this one is on its way: a client that reads nothing is asked nothing more.
  state_ = State::finishing;
  if (!writing_) write_next();
}

void Connection::write(std::string bytes) {
  said_ = Clock::now();
  to_write_ += bytes;
  if (!writing_) write_next();
}

void Connection::write_next() {
  if (to_write_.empty()) {
    if (state_ != State::finishing) return;
    if (closes_) return linger();
    state_ = State::waiting;
    if (!watching_) return read_request(server_.limits.header_time);
    read_by_ = Clock::now() + server_.limits.idle_time;
    Code ignored;
    if (buffer_.size() > 0) stream_.socket().cancel(ignored);
    return;
  }
  writing_ = true;
  being_written_ = std::exchange(to_write_, {});
  write_by_ = Clock::now() + server_.limits.write_time;
  asio::async_write(stream_, asio::buffer(being_written_), [self = shared_from_this()](Code code, std::size_t) {
    self->writing_ = false;
    self->write_by_ = Clock::time_point::max();
    if (self->state_ == State::closed) return;
    if (code) return self->close();
    self->write_next();
  });
}

/// Says that this was all, and reads what the client still writes: a connection closed at once would take the answer with it.
void Connection::linger() {
  if (state_ != State::lingering) {
    state_ = State::lingering;
    constexpr std::chrono::seconds time{2};
    read_by_ = Clock::now() + time;
    if (stream_.has_tls()) return say_end();
    Code ignored;
    stream_.socket().shutdown(Stream::Socket::shutdown_send, ignored);
  }
  if (watching_) return;
  watching_ = true;
  buffer_.clear();
  constexpr std::size_t piece = 65536;
  stream_.async_read_some(buffer_.prepare(piece), [self = shared_from_this()](Code code, std::size_t) {
    self->watching_ = false;
    if (self->state_ == State::closed) return;
    code ? self->close() : self->linger();
  });
}

/// The same under TLS, which has a word for it.
void Connection::say_end() {
  Code ignored;
  if (watching_) {
    stream_.socket().cancel(ignored);
    return;
  }
  stream_.say_end([self = shared_from_this()](Code) { self->close(); });
}

void Connection::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  Code ignored;
  stream_.socket().close(ignored);
  const std::function<void()> gone = std::exchange(gone_, {});
  server_.connections.erase(shared_from_this());
  if (gone) gone();
}

void Connection::check_time(Clock::time_point now) {
  if (now > write_by_ || now > read_by_) return close();
  if (state_ == State::answering && now > said_ + server_.limits.ping_time && (streams_ || awaits_stream_) && !form_.ping.empty()) {
    if (!streams_) begin_stream();
    write_chunk(std::string(form_.ping));
  }
}

}  // namespace bantam::server
