// Finds a set of fixed strings in a text: the longest one at the leftmost place.
#include "text/literals.hpp"

namespace bantam::inline v0 {

Literals::Literals() : nodes_(1) {}

std::uint32_t Literals::child(std::uint32_t node, std::uint8_t byte) const noexcept {
  if (node == 0) return roots_[byte];
  std::uint32_t at = nodes_[node].first_child;
  while (at != 0 && nodes_[at].byte != byte) at = nodes_[at].next_sibling;
  return at;
}

void Literals::add(std::string_view text, std::int32_t id) {
  if (text.empty()) return;
  std::uint32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    std::uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({0, node == 0 ? 0 : nodes_[node].first_child, -1, byte});
      if (node == 0) {
        roots_[byte] = next;
      } else {
        nodes_[node].first_child = next;
      }
    }
    node = next;
  }
  if (nodes_[node].id < 0) nodes_[node].id = id;
}

bool Literals::match(std::string_view text, std::size_t at, Hit& hit) const noexcept {
  bool found = false;
  std::uint32_t node = 0;
  for (std::size_t end = at; end < text.size();) {
    node = child(node, static_cast<std::uint8_t>(text[end++]));
    if (node == 0) break;
    if (nodes_[node].id >= 0) {
      hit = {at, end, nodes_[node].id};
      found = true;
    }
  }
  return found;
}

bool Literals::find(std::string_view text, std::size_t from, Hit& hit) const noexcept {
  if (empty()) return false;
  for (std::size_t at = from; at < text.size(); ++at) {
    if (roots_[static_cast<std::uint8_t>(text[at])] != 0 && match(text, at, hit)) return true;
  }
  return false;
}

}  // namespace bantam::inline v0
