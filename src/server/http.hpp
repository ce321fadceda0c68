// HTTP/1.1 on one thread: connections with limits of size and time, whole and streamed replies.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bantam::server {

struct RequestRecord;

/// Where a server listens, unless its process was started with a socket: that is taken then.
struct HttpAddress {
  std::string host;  ///< a name or an address; a path that ends with .sock is a Unix socket's
  int port = 0;      ///< 0: any that is free
  std::string key_file = {}, certificate_file = {};  ///< of TLS, in PEM; empty: without
};

/// What connections may take. Times are those of a steady clock.
struct HttpLimits {
  std::size_t header_bytes = std::size_t{32} << 10;
  std::size_t body_bytes = std::size_t{16} << 20;
  std::size_t connections = 1000;  ///< more are answered with 503
  std::chrono::seconds header_time{10};  ///< from the connection to the end of a request's header
  std::chrono::seconds body_time{60};
  std::chrono::seconds idle_time{60};    ///< between two requests
  std::chrono::seconds write_time{30};   ///< for a client to take what was written
  std::chrono::seconds ping_time{15};    ///< a stream that has nothing to say sends a ping
};

/// A request as it came. Names of headers do not matter beyond these.
struct HttpRequest {
  std::string method, path, query;     ///< what follows a question mark apart
  std::string authorization, api_key;  ///< headers Authorization and X-Api-Key
  std::string peer;                    ///< the address that it came from
  std::string body = {};

  /// A parameter of the query, decoded; none where it is not there.
  [[nodiscard]] std::optional<std::string> parameter(std::string_view name) const;
};

/// Names and values.
using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  int status = 200;
  std::string body = {};
  std::string type = "application/json; charset=utf-8";
  HttpHeaders headers = {};  ///< others
};

/// What a stream is made of.
struct StreamForm {
  std::string_view type;
  std::string_view ping;  ///< what says nothing, so that nobody takes the connection for dead; empty: there is no such thing
};
inline constexpr StreamForm server_sent_events{.type = "text/event-stream", .ping = ": ping\n\n"}, json_lines{.type = "application/x-ndjson", .ping = ""};

/// A request and the way back to who sent it. Functions may be called from any thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  [[nodiscard]] virtual const HttpRequest& request() const noexcept = 0;
  /// Answers. Nothing where the stream began already.
  virtual void reply(HttpReply reply) = 0;
  /// The answer will be a stream: it begins with what is sent first, or with a ping where that is long in coming.
  virtual void expect_stream(StreamForm form) = 0;
  /// Bytes of the stream.
  virtual void send(std::string events) = 0;
  /// Ends the stream.
  virtual void end() = 0;
  /// Calls `f` once, on the server's thread, if the client goes away before it has its answer, or went already.
  virtual void on_gone(std::function<void()> f) = 0;
  /// Where what is found out about the request is kept; null: nobody wants to know.
  [[nodiscard]] virtual RequestRecord* record() noexcept { return nullptr; }
  /// Holds what the answer is made with until nobody holds the exchange.
  void hold(std::shared_ptr<const void> what) { held_ = std::move(what); }

 private:
  std::shared_ptr<const void> held_;
};

using HttpHandler = std::function<void(std::shared_ptr<Exchange>)>;
/// Looks at a request before its body is read; what it returns is the answer, and the body is left alone. `more` goes with whatever is answered.
using HttpCheck = std::function<std::optional<HttpReply>(const HttpRequest&, HttpHeaders& more)>;

/// Makes the answer to what is no request, or too much: a status, OpenAI's word for it, and what is wrong; the path where there is one.
using HttpRefusal = std::function<HttpReply(int status, std::string_view type, std::string_view what, std::string_view path)>;

/// What a server listens with. All but post() belong to the thread that calls run().
class HttpServer {
 public:
  /// Binds, so that an address in use shows at once, but does not listen yet. Throws bantam::Error (io), invalid_argument for a key and a
  /// certificate that do not go together, unsupported for TLS in a build without it.
  explicit HttpServer(const HttpAddress& address, HttpLimits limits = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "http://127.0.0.1:8080", "https://127.0.0.1:8443", "unix:/run/bantam.sock".
  [[nodiscard]] std::string url() const;
  /// Listens. The handler must not wait.
  void listen(HttpCheck check, HttpHandler handler, HttpRefusal refuse);
  /// Calls `f` with the number of a signal when it comes. Those that the process ignores stay ignored.
  void on_signals(const std::vector<int>& signals, std::function<void(int)> f);
  /// Runs until stop().
  void run();
  void stop();
  /// Takes no more connections, and closes each with its answer.
  void close();
  /// Whether an answer is being written.
  [[nodiscard]] bool is_busy() const;
  [[nodiscard]] std::size_t connections() const noexcept;
  /// Runs `f` on the server's thread, soon or after a while.
  void post(std::function<void()> f);
  void after(std::chrono::milliseconds time, std::function<void()> f);

  struct Impl;  ///< private

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace bantam::server
