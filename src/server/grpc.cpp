// Finding the module.
#include "server/grpc.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "bantam/core/error.hpp"

namespace bantam::server {

std::unique_ptr<GrpcDoor> open_grpc(const HttpAddress& address, const HttpLimits& limits, HttpServer& http) {
#ifdef BANTAM_GRPC_FOLDER
  // Beside the program in a build, in its folder of libraries where both are installed.
  std::error_code unknown;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  constexpr const char* name = "bantam-grpc.so";
  std::string found;
  for (const std::filesystem::path& path : {folder / name, folder / ".." / BANTAM_GRPC_FOLDER / name}) {
    // Its threads may outlive whatever holds it: it stays.
    void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (module == nullptr) {
      const char* const error = ::dlerror();
      if (found.empty() || std::filesystem::exists(path, unknown)) found = error;
      continue;
    }
    const auto open = reinterpret_cast<OpenGrpc>(::dlsym(module, open_grpc_name));
    if (open == nullptr) fail(Errc::unsupported, printable(path.string(), 4096), ": expected the module of this program, found another");
    GrpcThread thread{.post = [&http](std::function<void()> f) { http.post(std::move(f)); },
                      .after = [&http](std::chrono::milliseconds time, std::function<void()> f) { http.after(time, std::move(f)); }};
    return std::unique_ptr<GrpcDoor>(open(address, limits, std::move(thread)));
  }
  fail(Errc::unsupported, "gRPC: expected ", name, " (Debian: bantam-grpc), found: ", printable(found, 4096));
#else
  (void)address, (void)limits, (void)http;
  fail(Errc::unsupported, "gRPC: this build was made without it (Debian: libgrpc++-dev)");
#endif
}

}  // namespace bantam::server
