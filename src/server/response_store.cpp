// The least recently used go first.
#include "server/response_store.hpp"

namespace bantam::server {

void ResponseStore::put(const std::string& id, StoredResponse response) {
  const Json::Style style{.replace_invalid = true};
  const std::size_t bytes = response.messages.dump(style).size() + response.input.dump(style).size() + response.response.dump(style).size();
  if (bytes > most_bytes) return;
  auto shared = std::make_shared<const StoredResponse>(std::move(response));
  const std::lock_guard lock(mutex_);
  entries_.push_front({id, bytes, std::move(shared)});
  by_id_[entries_.front().id] = entries_.begin();
  bytes_ += bytes;
  while (entries_.size() > most || bytes_ > most_bytes) drop(std::prev(entries_.end()));
}

std::shared_ptr<const StoredResponse> ResponseStore::find(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->response;
}

bool ResponseStore::erase(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  drop(found->second);
  return true;
}

void ResponseStore::drop(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace bantam::server
