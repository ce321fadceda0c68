// Whether a model still writes what it wrote when it was well.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/kernels/table.hpp"
#include "bantam/session/scheduler.hpp"

namespace bantam::server {

struct ProbeOptions {
  std::chrono::seconds every{0};  ///< 0: never
  std::string file = {};          ///< where what is expected waits for the next start; empty: the first answer after each start is right
};

/// A fixed prompt is gone on from greedily, now and then: texts and logits have the same bits whoever else is there, on all machines with the same
/// instruction set, so that other ones mean that weights, memory or arithmetic are broken. Safe from any thread.
class Probe {
 public:
  Probe(ProbeOptions options, std::function<void(std::string_view)> note) : options_(std::move(options)), note_(std::move(note)) {}
  [[nodiscard]] bool is_on() const noexcept { return options_.every.count() > 0; }
  [[nodiscard]] std::chrono::seconds every() const noexcept { return options_.every; }

  /// What is asked.
  [[nodiscard]] static TextRequest request(const Tokenizer& tokenizer, std::int64_t context);

  /// Takes in the answer, one after the other.
  class Answer {
   public:
    void add(const TextUpdate& update);
    /// There will be none.
    void fail(std::string error) {
      error_ = std::move(error);
      end_ = TextEnd::failed;
    }
    [[nodiscard]] TextEnd end() const noexcept { return end_; }
    [[nodiscard]] const std::string& error() const noexcept { return error_; }
    /// Of tokens and log probabilities, bit for bit.
    [[nodiscard]] std::string hash() const;

   private:
    std::string bytes_, error_;
    TextEnd end_ = TextEnd::running;
  };
  /// What the bits of an answer depend on.
  struct Origin {
    std::string model, kv;
    std::string isa = kernels_in_use().name;
  };
  /// Compares an answer with what is expected, or expects it from now on where nothing is, or what was found with another instruction set. Another model
  /// or kind of keys and values is a complaint.
  void judge(const Answer& answer, const Origin& origin);
  /// Another model has taken the place of the one that was asked: its next answer is what is expected.
  void renew();
  /// The scheduler had no room to ask.
  void skip();

  /// What is wrong; none where all is well.
  [[nodiscard]] std::optional<std::string> complaint() const;
  struct Counts {
    std::uint64_t same = 0, other = 0, failed = 0, skipped = 0;
  };
  [[nodiscard]] Counts counts() const;

 private:
  struct Expected {
    Origin origin;
    std::string hash;
  };
  void expect(Expected found);
  [[nodiscard]] std::optional<Expected> read() const;
  void complain(std::string line);

  const ProbeOptions options_;
  const std::function<void(std::string_view)> note_;
  mutable std::mutex mutex_;
  std::optional<Expected> expected_;
  bool renews_ = false;  ///< what a file has is another model's
  std::optional<std::string> complaint_ = std::nullopt;
  Counts counts_;
};

}  // namespace bantam::server
