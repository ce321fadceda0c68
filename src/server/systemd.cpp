// The protocols of sd_listen_fds(3) and sd_notify(3).
#include "server/systemd.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bantam/core/error.hpp"

namespace bantam::server {

std::optional<int> inherited_socket() {
  const char *pid = std::getenv("LISTEN_PID"), *count = std::getenv("LISTEN_FDS");
  // Meant for another process, whose environment this one has.
  if (pid == nullptr || count == nullptr || std::to_string(::getpid()) != pid) return std::nullopt;
  const std::string found = count;
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(name);
  if (found == "0") return std::nullopt;
  if (found != "1") fail(Errc::invalid_argument, "LISTEN_FDS: expected one socket, found ", printable(found));
  constexpr int first = 3;
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(first, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
    fail(Errc::invalid_argument, "LISTEN_FDS: expected a socket that listens, found something else");
  ::fcntl(first, F_SETFD, FD_CLOEXEC);
  return first;
}

void tell_manager(std::string_view state) noexcept {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = path == nullptr ? 0 : std::strlen(path);
  if (length == 0 || length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, length);
  // A name that no file has begins with a zero, written as @.
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  (void)!::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size);
  ::close(fd);
}

}  // namespace bantam::server
