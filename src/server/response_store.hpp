// Responses that later ones go on from, and that clients ask for again.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "io/json.hpp"

namespace bantam::server {

struct StoredResponse {
  Json messages;  ///< the conversation up to its reply, as a chat
  Json input;     ///< items that it was made from
  Json response;  ///< as its client got it
};

/// The last few of them, in memory. Safe from any thread.
class ResponseStore {
 public:
  void put(const std::string& id, StoredResponse response);
  /// Null for those that never were, or went.
  [[nodiscard]] std::shared_ptr<const StoredResponse> find(std::string_view id);
  /// Whether it was there.
  bool erase(std::string_view id);

 private:
  // As JSON, which takes up to three times as much in memory.
  static constexpr std::size_t most = 1000, most_bytes = std::size_t{64} << 20;

  struct Entry {
    std::string id;
    std::size_t bytes;
    std::shared_ptr<const StoredResponse> response;
  };
  using Entries = std::list<Entry>;
  void drop(Entries::iterator entry);

  std::mutex mutex_;
  Entries entries_;  ///< asked for last first
  std::map<std::string_view, Entries::iterator> by_id_;
  std::size_t bytes_ = 0;
};

}  // namespace bantam::server
