// What is kept of texts and replies, over a restart.
#pragma once

#include <functional>
#include <string_view>

#include "server/app.hpp"

namespace bantam::server {

/// ServerOptions::cache_file: written when the server ends, read when it begins. A file is of this version, this model and its formats.
class CacheFile {
 public:
  /// Throws invalid_argument for a file that no server wrote, so that none is lost; io.
  explicit CacheFile(App& app);
  /// Takes over what is there. What cannot be used is told to `note`, and done without.
  void restore(const std::function<void(std::string_view)>& note) const;
  /// Writes a whole file, or none, and tells `note` why.
  void save(const std::function<void(std::string_view)>& note) const;

 private:
  App& app_;
  bool exists_ = false;
};

}  // namespace bantam::server
