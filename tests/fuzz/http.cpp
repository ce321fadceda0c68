// Connections: bytes as a client might send them, in one piece or two, to the HTTP server with handlers that say how long bodies are.
#include "server/http.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <thread>

#include "fuzz/fuzz.hpp"

namespace bantam::fuzz {

namespace {

using namespace bantam::server;

class LengthServer {
 public:
  LengthServer() : path_((folder_ / "door.sock").string()), http_({.host = path_}, {.header_bytes = 1024, .body_bytes = 2048}) {
    http_.listen(
        [](const HttpRequest& request, HttpHeaders&) {
          return request.path == "/refused" ? std::optional(HttpReply{.status = 404, .body = "{}"}) : std::nullopt;
        },
        [](const std::shared_ptr<Exchange>& exchange) {
          // Who is not answered is told so; a stream is in pieces.
          if (exchange->request().path == "/lost") return;
          if (exchange->request().path != "/stream") return exchange->reply({.body = std::to_string(exchange->request().body.size())});
          exchange->expect_stream(server_sent_events);
          exchange->send("data: 1\n\n");
          exchange->send("data: 2\n\n");
          exchange->end();
        },
        [](int status, std::string_view, std::string_view, std::string_view) { return HttpReply{.status = status, .body = "{}"}; });
    thread_ = std::thread([this] { http_.run(); });
  }
  ~LengthServer() {
    http_.stop();
    thread_.join();
  }

  /// What comes back, until the server closes or has nothing more to say.
  [[nodiscard]] std::string ask(std::string_view bytes, std::size_t cut, bool waits) const {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    require(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "a server takes connections");
    for (const std::string_view piece : {bytes.substr(0, cut), bytes.substr(cut)}) (void)::send(fd, piece.data(), piece.size(), MSG_NOSIGNAL);
    std::string got;
    // What is incomplete waits for the rest: then the end is said.
    for (int patience = waits ? 1 : 0;;) {
      pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
      const int found = ::poll(&ready, 1, patience);
      if (found == 0) {
        require(patience >= 0, "waiting ends");
        ::shutdown(fd, SHUT_WR);
        patience = -1;
        continue;
      }
      char piece[4096];
      const ssize_t count = ::recv(fd, piece, sizeof piece, 0);
      if (count <= 0) break;
      got.append(piece, static_cast<std::size_t>(count));
    }
    ::close(fd);
    return got;
  }

 private:
  Scratch folder_;
  const std::string path_;
  HttpServer http_;
  std::thread thread_;
};

/// Takes a chunked body off the front; false where it is cut off.
bool take_chunks(std::string_view& bytes) {
  while (true) {
    const std::size_t line = bytes.find("\r\n");
    if (line == bytes.npos) return false;
    std::size_t size = 0;
    const auto [end, code] = std::from_chars(bytes.data(), bytes.data() + line, size, 16);
    require(code == std::errc() && end == bytes.data() + line, "a chunk begins with its size");
    if (bytes.size() < line + 4 + size) return false;
    require(bytes.substr(line + 2 + size, 2) == "\r\n", "a chunk ends with a line");
    bytes.remove_prefix(line + 4 + size);
    if (size == 0) return true;
  }
}

/// Answers one behind the other, the last of which may be cut off. Returns how many there are. Those to HEAD have no body, which shows in
/// what follows alone: they are looked for at both places.
std::size_t count_answers(std::string_view bytes) {
  std::size_t count = 0;
  while (!bytes.empty()) {
    ++count;
    const std::size_t end = bytes.find("\r\n\r\n");
    if (end == bytes.npos) return count;
    const std::string_view head = bytes.substr(0, end + 2);
    require(head.starts_with("HTTP/1.1 ") && head.size() > 14 && head[12] == ' ', "an answer begins with a status");
    bytes.remove_prefix(end + 4);
    const bool is_interim = head[9] == '1';
    const std::size_t length = head.find("Content-Length: ");
    if (is_interim || bytes.starts_with("HTTP/1.1 ")) continue;
    if (length != head.npos) {
      std::size_t size = 0;
      std::from_chars(head.data() + length + 16, head.data() + head.size(), size);
      bytes.remove_prefix(std::min(size, bytes.size()));
    } else if (head.find("chunked") != head.npos) {
      if (!take_chunks(bytes)) return count;
    } else {
      return count;  // to the end of the connection
    }
  }
  return count;
}

void run_http(Bytes bytes) {
  static const LengthServer server;
  if (bytes.empty()) return;
  const std::string_view sent = text_of(bytes.subspan(1));
  const std::size_t cut = bytes[0] < 128 ? sent.size() : static_cast<std::size_t>(bytes[0] - 128) * sent.size() / 128;
  (void)count_answers(server.ask(sent, cut, bytes[0] % 2 == 0));
  const std::string good = server.ask("POST /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", 0, true);
  require(good.starts_with("HTTP/1.1 200 OK\r\n") && good.ends_with("\r\n\r\n2"), "a server goes on to serve others");
}

const Target http_target("http", run_http);

}  // namespace
}  // namespace bantam::fuzz
