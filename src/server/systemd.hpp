// What a manager of services, systemd or one that does as it does, hands over and wants to hear.
#pragma once

#include <optional>
#include <string_view>

namespace bantam::server {

/// The socket that this process was started with to listen on (LISTEN_PID, LISTEN_FDS); its own from now on. None where there is none. Throws
/// invalid_argument for more than one, and for what does not listen.
[[nodiscard]] std::optional<int> inherited_socket();
/// Says "READY=1", "STOPPING=1" where NOTIFY_SOCKET says to whom; nobody minds where it cannot.
void tell_manager(std::string_view state) noexcept;

}  // namespace bantam::server
