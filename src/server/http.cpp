// Connections: reading requests, writing answers, noticing who went away.
#include "server/http.hpp"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <set>

#include "bantam/core/error.hpp"

namespace bantam::server {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
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

}  // namespace

class Connection;

struct HttpServer::Impl {
  Impl(const std::string& host, int port, HttpLimits l)
      : limits(l), acceptor(context), sweep_timer(context), accept_timer(context), signals(context) {
    try {
      Tcp::resolver resolver(context);
      const auto found = resolver.resolve(host, std::to_string(port), Tcp::resolver::passive | Tcp::resolver::numeric_service);
      // "localhost" is both: the address that every client tries.
      auto chosen = std::find_if(found.begin(), found.end(), [](const auto& entry) { return entry.endpoint().address().is_v4(); });
      if (chosen == found.end()) chosen = found.begin();
      const Tcp::endpoint endpoint = chosen->endpoint();
      acceptor.open(endpoint.protocol());
      acceptor.set_option(Tcp::acceptor::reuse_address(true));
      acceptor.bind(endpoint);
      const std::string shown = host.find(':') == std::string::npos ? host : message('[', host, ']');
      url = message("http://", shown, ':', acceptor.local_endpoint().port());
    } catch (const boost::system::system_error& error) {
      fail(Errc::io, printable(host), ':', port, ": expected an address to listen on, found: ", printable(error.code().message()));
    }
  }

  ~Impl() { *runs = false; }

  void accept();
  void sweep();

  const HttpLimits limits;
  const std::shared_ptr<std::atomic<bool>> runs = std::make_shared<std::atomic<bool>>(true);
  asio::io_context context{1};
  Tcp::acceptor acceptor;
  asio::steady_timer sweep_timer, accept_timer;
  asio::signal_set signals;
  std::string url;
  HttpCheck check;
  HttpHandler handler;
  HttpRefusal refuse;
  std::set<std::shared_ptr<Connection>> connections;
  bool closing = false;
};

/// One client. Everything happens on the server's thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(HttpServer::Impl& server, Tcp::socket socket) : server_(server), socket_(std::move(socket)) {
    Code ignored;
    socket_.set_option(Tcp::no_delay(true), ignored);
    const Tcp::endpoint from = socket_.remote_endpoint(ignored);
    if (!ignored) peer_ = from.address().to_string();
  }

  void start() { read_request(server_.limits.header_time); }
  /// Too many are there already.
  void turn_away() {
    HttpReply reply = server_.refuse(503, "overloaded_error", "too many connections", {});
    reply.headers.emplace_back("Retry-After", "1");
    refuse(std::move(reply));
  }
  void check_time(Clock::time_point now);
  void close_when_idle() {
    closes_ = true;
    if (state_ == State::waiting && !writing_) close();
  }
  [[nodiscard]] bool is_answering() const { return state_ == State::answering || writing_; }

  // Of the answer at hand; `number` tells it from those before.
  void reply(std::uint64_t number, HttpReply reply) {
    if (number == number_ && state_ == State::answering && !streams_) write_reply(std::move(reply));
  }
  void expect_stream(std::uint64_t number) {
    if (number == number_ && state_ == State::answering) awaits_stream_ = true;
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
  void refuse(Code code, std::string_view path = {});
  void watch();
  void write(std::string bytes);
  void write_next();
  void write_reply(HttpReply reply);
  void begin_stream();
  void write_chunk(const std::string& bytes);
  void answered();
  void linger();
  void close();
  [[nodiscard]] std::string head(int status, std::string_view type, const std::vector<std::pair<std::string, std::string>>& headers) const;

  HttpServer::Impl& server_;
  Tcp::socket socket_;
  std::string peer_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  State state_ = State::waiting;
  std::uint64_t number_ = 0;
  unsigned version_ = 11;
  bool omits_body_ = false;     ///< HEAD
  bool closes_ = false;         ///< with this answer
  bool streams_ = false, awaits_stream_ = false;
  bool watching_ = false;       ///< a read is pending that notices the end
  bool writing_ = false;
  std::string to_write_, being_written_;
  std::function<void()> gone_;
  Clock::time_point read_by_ = Clock::time_point::max(), write_by_ = Clock::time_point::max(), said_ = Clock::now();
};

namespace {

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
  void expect_stream() override {
    asio::dispatch(context_, [c = connection_, n = number_] { c->expect_stream(n); });
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

void Connection::read_request(std::chrono::seconds time) {
  state_ = State::waiting;
  streams_ = awaits_stream_ = omits_body_ = false;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(server_.limits.header_bytes));
  parser_->body_limit(server_.limits.body_bytes);
  read_by_ = Clock::now() + time;
  http::async_read_header(socket_, buffer_, *parser_, [self = shared_from_this()](Code code, std::size_t) {
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
  if (std::optional<HttpReply> refused = server_.check(request)) {
    // The next request is behind the body, which nobody reads.
    if (!parser_->is_done()) return refuse(*std::move(refused));
    state_ = State::answering;
    ++number_;
    watch();
    return write_reply(*std::move(refused));
  }
  if (beast::iequals(head[http::field::expect], "100-continue")) write("HTTP/1.1 100 Continue\r\n\r\n");
  read_by_ = Clock::now() + server_.limits.body_time;
  http::async_read(socket_, buffer_, *parser_, [self = shared_from_this(), request = std::move(request)](Code code, std::size_t) mutable {
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
  socket_.async_read_some(buffer_.prepare(piece), [self = shared_from_this()](Code code, std::size_t count) {
    self->watching_ = false;
    if (self->state_ == State::closed) return;
    // Called off: what came before is the next request.
    if (code == asio::error::operation_aborted && self->state_ == State::waiting)
      return self->read_request(self->server_.limits.header_time);
    if (code) return self->close();
    if (self->state_ == State::lingering) return self->linger();
    self->buffer_.commit(count);
    if (self->state_ == State::waiting) return self->read_request(self->server_.limits.header_time);
    if (self->state_ == State::answering) self->watch();
  });
}

std::string Connection::head(int status, std::string_view type, const std::vector<std::pair<std::string, std::string>>& headers) const {
  std::string out = message("HTTP/1.1 ", status, ' ', reason_of(status), "\r\n");
  if (!type.empty()) out += message("Content-Type: ", type, "\r\n");
  for (const auto& [name, value] : headers) out += message(name, ": ", value, "\r\n");
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
  write(head(200, "text/event-stream", {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}) +
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
    if (buffer_.size() > 0) socket_.cancel(ignored);
    return;
  }
  writing_ = true;
  being_written_ = std::exchange(to_write_, {});
  write_by_ = Clock::now() + server_.limits.write_time;
  asio::async_write(socket_, asio::buffer(being_written_), [self = shared_from_this()](Code code, std::size_t) {
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
    Code ignored;
    socket_.shutdown(Tcp::socket::shutdown_send, ignored);
    constexpr std::chrono::seconds time{2};
    read_by_ = Clock::now() + time;
  }
  if (watching_) return;
  watching_ = true;
  buffer_.clear();
  constexpr std::size_t piece = 65536;
  socket_.async_read_some(buffer_.prepare(piece), [self = shared_from_this()](Code code, std::size_t) {
    self->watching_ = false;
    if (self->state_ == State::closed) return;
    code ? self->close() : self->linger();
  });
}

void Connection::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  Code ignored;
  socket_.close(ignored);
  const std::function<void()> gone = std::exchange(gone_, {});
  server_.connections.erase(shared_from_this());
  if (gone) gone();
}

void Connection::check_time(Clock::time_point now) {
  if (now > write_by_ || now > read_by_) return close();
  if (state_ == State::answering && now > said_ + server_.limits.ping_time && (streams_ || awaits_stream_)) {
    if (!streams_) begin_stream();
    write_chunk(": ping\n\n");
  }
}

void HttpServer::Impl::accept() {
  acceptor.async_accept([this](Code code, Tcp::socket socket) {
    if (closing) return;
    if (code) {
      // No descriptors are left, or the like: others go before more come.
      constexpr std::chrono::milliseconds pause{100};
      accept_timer.expires_after(pause);
      accept_timer.async_wait([this](Code stopped) {
        if (!stopped && !closing) accept();
      });
      return;
    }
    const auto connection = std::make_shared<Connection>(*this, std::move(socket));
    const bool full = connections.size() >= limits.connections;
    connections.insert(connection);
    full ? connection->turn_away() : connection->start();
    accept();
  });
}

void HttpServer::Impl::sweep() {
  constexpr std::chrono::milliseconds pause{250};
  sweep_timer.expires_after(pause);
  sweep_timer.async_wait([this](Code stopped) {
    if (stopped) return;
    const auto now = Clock::now();
    for (const auto& connection : std::vector(connections.begin(), connections.end())) connection->check_time(now);
    sweep();
  });
}

HttpServer::HttpServer(const std::string& host, int port, HttpLimits limits) : impl_(std::make_unique<Impl>(host, port, limits)) {}
HttpServer::~HttpServer() = default;

std::string HttpServer::url() const { return impl_->url; }

void HttpServer::listen(HttpCheck check, HttpHandler handler, HttpRefusal refuse) {
  impl_->check = std::move(check);
  impl_->refuse = std::move(refuse);
  impl_->handler = std::move(handler);
  Code code;
  impl_->acceptor.listen(Tcp::acceptor::max_listen_connections, code);
  if (code) fail(Errc::io, impl_->url, ": expected to listen, found: ", printable(code.message()));
  impl_->accept();
  impl_->sweep();
}

void HttpServer::on_signals(const std::vector<int>& signals, std::function<void(int)> f) {
  for (const int signal : signals) {
    struct sigaction now {};
    ::sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) impl_->signals.add(signal);
  }
  const auto wait = [this, f = std::move(f)](const auto& again) -> void {
    impl_->signals.async_wait([f, again](Code code, int signal) {
      if (code) return;
      f(signal);
      again(again);
    });
  };
  wait(wait);
}

void HttpServer::run() { impl_->context.run(); }
void HttpServer::stop() { impl_->context.stop(); }

void HttpServer::close() {
  impl_->closing = true;
  Code ignored;
  impl_->acceptor.close(ignored);
  for (const auto& connection : std::vector(impl_->connections.begin(), impl_->connections.end())) connection->close_when_idle();
}

bool HttpServer::is_busy() const {
  return std::any_of(impl_->connections.begin(), impl_->connections.end(),
                     [](const auto& connection) { return connection->is_answering(); });
}

std::size_t HttpServer::connections() const noexcept { return impl_->connections.size(); }

void HttpServer::post(std::function<void()> f) { asio::post(impl_->context, std::move(f)); }

void HttpServer::after(std::chrono::milliseconds time, std::function<void()> f) {
  auto timer = std::make_shared<asio::steady_timer>(impl_->context, time);
  timer->async_wait([timer, f = std::move(f)](Code code) {
    if (!code) f();
  });
}

}  // namespace bantam::server
