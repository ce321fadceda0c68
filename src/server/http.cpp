// The door: addresses, TLS, who comes in, and the end.
#include "server/http.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "bantam/core/error.hpp"
#include "server/connection.hpp"
#include "server/systemd.hpp"

namespace bantam::server {

namespace {

namespace asio = boost::asio;
using Code = boost::system::error_code;

}  // namespace

std::optional<std::string> HttpRequest::parameter(std::string_view name) const {
  const auto decoded = [](std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      unsigned byte = 0;
      const char* const digits = text.data() + i + 1;
      if (text[i] == '%' && i + 2 < text.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
        out += static_cast<char>(byte);
        i += 2;
      } else {
        out += text[i] == '+' ? ' ' : text[i];
      }
    }
    return out;
  };
  for (std::string_view rest = query; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::size_t equals = part.find('=');
    if (decoded(part.substr(0, equals)) == name) return decoded(equals == part.npos ? std::string_view() : part.substr(equals + 1));
  }
  return std::nullopt;
}

HttpServer::Impl::Impl(const HttpAddress& address, HttpLimits l)
    : limits(l), acceptor(context), sweep_timer(context), accept_timer(context), signals(context), tls(address.key_file, address.certificate_file) {
  const std::optional<int> inherited = inherited_socket();
  if (inherited) {
    take(*inherited);
    return;
  }
  try {
    address.host.ends_with(".sock") ? bind_unix(address.host) : bind_tcp(address.host, address.port);
  } catch (const boost::system::system_error& error) {
    fail(Errc::io, printable(address.host), ':', address.port, ": expected an address to listen on, found: ", printable(error.code().message()));
  }
}

HttpServer::Impl::~Impl() {
  *runs = false;
  close_door();
}

void HttpServer::Impl::bind_tcp(const std::string& host, int port) {
  using Tcp = asio::ip::tcp;
  Tcp::resolver resolver(context);
  const auto found = resolver.resolve(host, std::to_string(port), Tcp::resolver::passive | Tcp::resolver::numeric_service);
  // "localhost" is both: the address that every client tries.
  auto chosen = std::find_if(found.begin(), found.end(), [](const auto& entry) { return entry.endpoint().address().is_v4(); });
  if (chosen == found.end()) chosen = found.begin();
  Tcp::endpoint endpoint = chosen->endpoint();
  acceptor.open(endpoint.protocol());
  acceptor.set_option(asio::socket_base::reuse_address(true));
  acceptor.bind(endpoint);
  const auto bound = acceptor.local_endpoint();
  std::memcpy(endpoint.data(), bound.data(), std::min(bound.size(), endpoint.capacity()));
  const std::string shown = host.find(':') == std::string::npos ? host : message('[', host, ']');
  url = message(tls.is_on() ? "https://" : "http://", shown, ':', endpoint.port());
}

void HttpServer::Impl::take(int socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  Code code;
  const bool is_known = ::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size) == 0;
  const bool is_tcp = name.ss_family == AF_INET || name.ss_family == AF_INET6;
  if (!is_known || (!is_tcp && name.ss_family != AF_UNIX)) fail(Errc::invalid_argument, "LISTEN_FDS: expected a socket of TCP or Unix");
  acceptor.assign(asio::generic::stream_protocol(name.ss_family, is_tcp ? IPPROTO_TCP : 0), socket, code);
  if (code) fail(Errc::io, "LISTEN_FDS: ", printable(code.message()));
  if (is_tcp) {
    asio::ip::tcp::endpoint endpoint;
    std::memcpy(endpoint.data(), &name, std::min<std::size_t>(size, endpoint.capacity()));
    const std::string host = endpoint.address().to_string();
    url = message(tls.is_on() ? "https://" : "http://", host.find(':') == std::string::npos ? host : message('[', host, ']'), ':', endpoint.port());
  } else {
    // Its file belongs to who made it.
    const auto& path = reinterpret_cast<const sockaddr_un&>(name).sun_path;
    url = message("unix:", std::string_view(path, ::strnlen(path, sizeof path)));
  }
}

void HttpServer::Impl::bind_unix(const std::string& path) {
  using Unix = asio::local::stream_protocol;
  const Unix::endpoint endpoint(path);
  // A file that nobody listens behind was left by a server that had no time to take it away.
  std::error_code no_file;
  if (std::filesystem::is_socket(path, no_file)) {
    Unix::socket probe(context);
    Code code;
    probe.connect(endpoint, code);
    if (code == asio::error::connection_refused) std::filesystem::remove(path, no_file);
  }
  acceptor.open(endpoint.protocol());
  acceptor.bind(endpoint);
  socket_file_ = path;
  url = message("unix:", path);
}

void HttpServer::Impl::close_door() {
  Code ignored;
  acceptor.close(ignored);
  std::error_code nobody_asks;
  if (!socket_file_.empty()) std::filesystem::remove(std::exchange(socket_file_, {}), nobody_asks);
}

void HttpServer::Impl::accept() {
  acceptor.async_accept([this](Code code, Stream::Socket socket) {
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
    const auto now = std::chrono::steady_clock::now();
    for (const auto& connection : std::vector(connections.begin(), connections.end())) connection->check_time(now);
    sweep();
  });
}

HttpServer::HttpServer(const HttpAddress& address, HttpLimits limits) : impl_(std::make_unique<Impl>(address, limits)) {}
HttpServer::~HttpServer() = default;

std::string HttpServer::url() const { return impl_->url; }

void HttpServer::listen(HttpCheck check, HttpHandler handler, HttpRefusal refuse) {
  impl_->check = std::move(check);
  impl_->refuse = std::move(refuse);
  impl_->handler = std::move(handler);
  Code code;
  impl_->acceptor.listen(asio::socket_base::max_listen_connections, code);
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
  impl_->close_door();
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
