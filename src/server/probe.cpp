// Asking, comparing, complaining.
#include "server/probe.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "bantam/core/hash.hpp"
#include "bantam/io/file.hpp"
#include "io/json.hpp"

namespace bantam::server {

namespace {

void append(std::string& bytes, const auto& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); }

}  // namespace

TextRequest Probe::request(const Tokenizer& tokenizer, std::int64_t context) {
  constexpr int tokens = 16, beside = 4;
  TextRequest request;
  request.prompts = {tokenizer.encode("The quick brown fox jumps over the lazy dog. 0123456789")};
  if (request.prompts[0].empty()) request.prompts[0].push_back(0);
  // With room for the answer, or some of it.
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(1, std::max(context - tokens, context / 2)));
  request.prompts[0].resize(std::min(request.prompts[0].size(), most));
  request.generate.max_tokens = tokens;
  request.generate.ignore_end = true;
  request.generate.sampling.temperature = 0;
  request.top_logprobs = beside;
  // Nothing that was read before, and no adapter that is on now and off then.
  request.reuse = false;
  request.adapters.emplace();
  request.client = "probe";
  request.priority = 1;
  return request;
}

void Probe::Answer::add(const TextUpdate& update) {
  for (const DrawnToken& token : update.tokens) {
    append(bytes_, token.id);
    append(bytes_, token.logprob);
    for (const auto& [id, logprob] : token.top) {
      append(bytes_, id);
      append(bytes_, logprob);
    }
  }
  end_ = update.end;
  if (update.end == TextEnd::failed) error_ = update.error;
}

std::string Probe::Answer::hash() const {
  constexpr HashKey forever{};
  constexpr std::string_view digits = "0123456789abcdef";
  std::uint64_t hash = sip_hash<2, 4>(bytes_, forever);
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, hash /= 16) *digit = digits[hash % 16];
  return text;
}

void Probe::judge(const Answer& answer, const Origin& origin) {
  if (answer.end() == TextEnd::cancelled || answer.end() == TextEnd::late) return skip();
  const std::lock_guard lock(mutex_);
  if (answer.end() == TextEnd::failed) {
    ++counts_.failed;
    return complain(message("the probe failed: ", printable(answer.error(), 400)));
  }
  const std::string hash = answer.hash();
  try {
    if (!expected_ && !std::exchange(renews_, false)) expected_ = read();
    if (expected_ && expected_->origin.isa != origin.isa) {
      note_(message("the probe's file is of ", printable(expected_->origin.isa), ", whose last bits are others than those of ", origin.isa, ": what is found now is expected from now on"));
      expected_.reset();
    }
    if (!expected_) expect({.origin = origin, .hash = hash});
  } catch (const Error& error) {
    ++counts_.failed;
    return complain(error.what());
  }
  const Origin& expected = expected_->origin;
  if (expected.model != origin.model || expected.kv != origin.kv) {
    ++counts_.failed;
    return complain(message("the probe's file is of ", printable(expected.model), " with ", printable(expected.kv), " keys, expected ", origin.model, " with ", origin.kv));
  }
  if (expected_->hash != hash) {
    ++counts_.other;
    return complain(message("the probe expected ", printable(expected_->hash), ", found ", hash, ": weights, memory or arithmetic are not what they were"));
  }
  ++counts_.same;
  if (complaint_) note_("the probe finds what it expects again");
  complaint_.reset();
}

void Probe::renew() {
  const std::lock_guard lock(mutex_);
  expected_.reset();
  renews_ = true;
}

void Probe::skip() {
  const std::lock_guard lock(mutex_);
  ++counts_.skipped;
}

std::optional<Probe::Expected> Probe::read() const {
  std::error_code missing;
  if (options_.file.empty() || !std::filesystem::exists(options_.file, missing)) return std::nullopt;
  const auto file = MappedFile::open(options_.file);
  std::string text(file->bytes().size(), '\0');
  file->read(file->bytes(), reinterpret_cast<std::byte*>(text.data()));
  const Json json = Json::parse(text, options_.file);
  Expected expected;
  for (const auto& [name, member] : {std::pair{"model", &expected.origin.model}, std::pair{"kv", &expected.origin.kv}, std::pair{"isa", &expected.origin.isa}, std::pair{"hash", &expected.hash}}) {
    const Json* value = json.is_object() ? json.find(name) : nullptr;
    if (value == nullptr || !value->is_string()) fail(Errc::corrupt, printable(options_.file, 4096), ": expected a text as ", name, ", found none");
    *member = value->string();
  }
  return expected;
}

void Probe::expect(Expected found) {
  expected_ = std::move(found);
  if (options_.file.empty()) return;
  AtomicFile file(options_.file);
  file.write(Json{{"model", expected_->origin.model}, {"kv", expected_->origin.kv}, {"isa", expected_->origin.isa}, {"hash", expected_->hash}}.dump() + '\n');
  file.commit();
}

void Probe::complain(std::string line) {
  if (complaint_ != line) note_(line);
  complaint_ = std::move(line);
}

std::optional<std::string> Probe::complaint() const {
  const std::lock_guard lock(mutex_);
  return complaint_;
}

Probe::Counts Probe::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace bantam::server
