// Choosing, and comparing.
#include "server/canary.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bantam/core/hash.hpp"
#include "bantam/core/message.hpp"

namespace bantam::server {

bool Canary::takes(std::string_view client, std::string_view beginning) {
  const std::string conversation = message(client, '\n', beginning);
  constexpr HashKey any{};
  // The upper half of the hash as a number from 0 to 1.
  const double at = static_cast<double>(sip_hash<2, 4>(conversation, any) >> 32) * 0x1p-32;
  const std::lock_guard lock(mutex_);
  const bool is_taken = !rolled_back_ && at < options_.share;
  ++(is_taken ? canary_ : first_);
  return is_taken;
}

double Canary::mean_of(const Texts& texts) {
  double nll = 0;
  std::int64_t tokens = 0;
  for (const Text& text : texts) {
    nll += text.nll;
    tokens += text.tokens;
  }
  return tokens == 0 ? 0 : nll / static_cast<double>(tokens);
}

std::optional<double> Canary::drift() const {
  if (texts_[0].size() < options_.least || texts_[1].size() < options_.least) return std::nullopt;
  return mean_of(texts_[1]) - mean_of(texts_[0]);
}

bool Canary::ended(Side side, std::int64_t tokens, double nll) {
  if (tokens == 0) return false;
  const std::lock_guard lock(mutex_);
  if (rolled_back_) return false;
  Texts& texts = texts_[static_cast<std::size_t>(side)];
  // What is not a number is as far as can be.
  texts.push_back({tokens, std::isfinite(nll) ? nll : 1e6 * static_cast<double>(tokens)});
  if (texts.size() > most_texts) texts.pop_front();
  const std::optional<double> far = drift();
  rolled_back_ = far && std::abs(*far) > options_.drift;
  return rolled_back_;
}

bool Canary::roll_back() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(rolled_back_, true);
}

Canary::Counts Canary::counts() const {
  const std::lock_guard lock(mutex_);
  return {first_, canary_, mean_of(texts_[0]), mean_of(texts_[1]), drift(), rolled_back_};
}

}  // namespace bantam::server
