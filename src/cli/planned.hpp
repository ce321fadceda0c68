// Whether a model fits, and how fast it will be, from its header or its config alone: what `bantam plan` and the server say.
#pragma once

#include <string>
#include <vector>

#include "bantam/compress/footprint.hpp"
#include "bantam/model/device_map.hpp"
#include "bantam/model/streamed_blocks.hpp"
#include "bantam/session/machine.hpp"
#include "output.hpp"
#include "timeline.hpp"

namespace bantam::cli {

/// What is asked.
struct PlanAsked {
  std::string model;             ///< a model, or a config alone
  std::string name = {};         ///< what it is called in what is said; empty: as it was given
  std::string format = {};       ///< as which it is stored; empty: as it is
  std::string kv = "f16";
  std::int64_t context = 0;      ///< tokens of a text; 0: what the model was made for, 8192 at most
  float expert_hits = 0;         ///< of a token's experts, the share that is in the cache; 0: as texts were seen to choose
  DeviceMap devices = {};        ///< what stays in memory; empty: what fits
};

/// What it would run on.
struct Machine {
  std::int64_t memory_bytes;
  double read_gb_s, int8_gop_s;
  StreamingRate disk = {};
  double product_gb_s = 0;  ///< that the model's weights are decoded with, as they are; 0: nobody knows, a share of read_gb_s
  double step_seconds = 0;  ///< of a pass, where nothing is read; 0: another machine's, which nobody knows
  int threads = 0;          ///< that products have; 0: another machine's, which nobody knows
  /// That weights are read with for one token.
  [[nodiscard]] double weights_gb_s() const noexcept;
};

/// What is 0 is measured; the disk by the files of the model.
[[nodiscard]] Machine measured(Machine machine, int threads, const Checkpoint& checkpoint);

/// What a session takes beside the weights, where all of it is in memory.
struct StateBytes {
  std::int64_t per_token = 0;  ///< keys and values
  std::int64_t fixed = 0;      ///< states of recurrent layers
  std::int64_t row = 0;        ///< activations of a token, where those of a text go through the layers together, however many they are
  [[nodiscard]] std::int64_t of_text(std::int64_t tokens) const noexcept { return fixed + (per_token + row) * tokens; }
};

/// One way to store the model, on the machine.
struct Case {
  Footprint size;
  std::string format;  ///< empty: as it is
  std::int64_t resident_bytes = 0, largest_context = 0;
  bool fits = false;
  bool streams = false;  ///< some of it stays in the file
  Residency residency = {};  ///< what does not
  std::int64_t streamed_bytes = 0;  ///< read from the file for each token, where it fits so; prompts read as much for each 512 tokens, and more experts
  std::int64_t table_bytes = 0;  ///< of the file, in which rows are looked up
  std::int64_t streamed_layers = 0, cached_experts = 0;
  double expert_hits = 0;  ///< of a token's experts, the share that is taken to be there, where not all are cached
  std::int64_t stored_key_bytes = 0;  ///< of the text in a file: what its last token reads
  double generate_tok_s = 0, prompt_tok_s = 0;
  Timeline timeline = {};  ///< of a token, where weights are streamed
};

/// What makes the model smaller by a goal rather than by a format.
struct Smaller {
  std::string_view purpose;
  std::int64_t bytes = 0;  ///< of what it makes
  std::string command;
};

struct Plan {
  PlanAsked asked;
  Machine machine;
  Checkpoint checkpoint;
  std::int64_t context = 0;
  StateBytes state;
  Case chosen;
  std::vector<Case> others;       ///< smaller formats, the most exact first
  std::vector<Smaller> smaller;
};

/// The model, without its weights. Throws bantam::Error.
[[nodiscard]] Checkpoint open_outline(const std::string& model);
[[nodiscard]] Plan plan_of(PlanAsked asked, Machine machine, Checkpoint checkpoint);
/// A line that compresses the model to a format.
[[nodiscard]] std::string command_of(const PlanAsked& asked, std::string_view format);
[[nodiscard]] Json to_json(const Plan& plan);

}  // namespace bantam::cli
