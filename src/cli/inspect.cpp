// `bantam inspect`: what a model or a vocabulary consists of.
#include "bantam/compress/footprint.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/model/checkpoint.hpp"
#include "bantam/model/expert_names.hpp"
#include "bantam/model/locate.hpp"
#include "bantam/model/native_file.hpp"
#include "bantam/model/roles.hpp"
#include "bantam/nn/kv_cache.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

struct InspectOptions {
  CommonOptions common;
  std::string model;
  bool verify = false;
  std::string gptq_zero;
};

/// A folder without weights, a GGUF file without tensors, or a tokenizer's own file.
bool is_vocabulary_only(const std::filesystem::path& path) {
  const FileKind kind = kind_of(path);
  if (kind == FileKind::gguf) return GgufFile::open(path)->tensors().empty();
  return kind == FileKind::folder ? !has_weights(path) : kind == FileKind::tokenizer;
}

Json describe(const Tokenizer& tokenizer) {
  const auto id = [](TokenId token) { return token >= 0 ? Json(token) : Json(nullptr); };
  Json special = Json::array();
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    if (tokenizer.is_special(token)) special.push_back({{"id", token}, {"text", tokenizer.piece(token)}});
  }
  return {{"kind", tokenizer.kind()},           {"vocab", tokenizer.vocab_size()},
          {"bos", id(tokenizer.bos())},         {"eos", id(tokenizer.eos())},
          {"unknown", id(tokenizer.unknown())}, {"adds_bos", tokenizer.adds_bos()},
          {"special", std::move(special)},      {"chat_template", !tokenizer.chat_template().empty()}};
}

using SizeOf = std::int64_t (ModelConfig::*)(std::int64_t) const noexcept;

/// "11008", or "7168 to 11008" where layers differ.
std::string sizes_text(const ModelConfig& c, SizeOf size) {
  std::int64_t least = (c.*size)(0), most = least;
  for (std::int64_t i = 1; i < c.layers; ++i) {
    least = std::min(least, (c.*size)(i));
    most = std::max(most, (c.*size)(i));
  }
  return least == most ? message(most) : message(least, " to ", most);
}

/// How many layers have a sliding window.
std::int64_t windowed_layers(const ModelConfig& c) {
  return std::ranges::count_if(c.specs, [](const LayerSpec& spec) { return spec.window > 0; });
}

/// A number, or a list of one a layer where layers differ.
Json sizes_json(const ModelConfig& c, SizeOf size, bool alike) {
  if (alike) return (c.*size)(0);
  Json sizes = Json::array();
  for (std::int64_t i = 0; i < c.layers; ++i) sizes.push_back((c.*size)(i));
  return sizes;
}

/// Layers that are alike, and how many of them there are, in the order in which they come.
std::vector<std::pair<LayerSpec, std::int64_t>> kinds_of(const ModelConfig& c) {
  std::vector<std::pair<LayerSpec, std::int64_t>> kinds;
  for (const LayerSpec& spec : c.specs) {
    const auto seen = std::ranges::find(kinds, spec, &std::pair<LayerSpec, std::int64_t>::first);
    if (seen == kinds.end()) kinds.emplace_back(spec, 1);
    else ++seen->second;
  }
  return kinds;
}

/// What a layer has in the place of attention or beside it; empty: nothing.
std::string_view mixer_text(MixerKind kind) {
  switch (kind) {
    case MixerKind::gated_delta: return "gated delta net";
    case MixerKind::channel_delta: return "delta net with a decay of each channel";
    case MixerKind::state_space: return "state space";
    case MixerKind::short_convolution: return "short convolution";
    case MixerKind::attention_beside_space: return "attention beside a state space";
    default: return "";
  }
}

std::string kinds_text(const ModelConfig& c) {
  std::string text;
  for (const auto& [spec, count] : kinds_of(c)) {
    std::vector<std::string> parts;
    if (spec.reads_ngrams) parts.emplace_back("n-grams");
    if (const std::string_view mixer = mixer_text(spec.mixer); !mixer.empty()) parts.emplace_back(mixer);
    else if (spec.mixer == MixerKind::none && !c.arch->single_halves) parts.emplace_back("no attention");
    if (spec.window > 0) parts.push_back(message("window of ", spec.window, " tokens"));
    if (attends(spec.mixer) && (c.arch->groups_differ() || spec.head_dim > 0)) parts.push_back(message(spec.kv_heads * c.group_of(spec), " heads of ", c.head_dim_of(spec), ", ", spec.kv_heads, " kv"));
    if (spec.kv_layer >= 0) parts.push_back(message("keys of layer ", spec.kv_layer));
    if (spec.shares_choice) parts.emplace_back("tokens that a layer before chose");
    if (spec.is_sparse()) {
      parts.push_back(message("experts of ", spec.expert_ffn, " (", c.router.used, " of ", spec.experts, " a token)"));
      if (spec.ffn > 0) parts.push_back(message("shared expert of ", spec.ffn));
    } else if (spec.ffn > 0 || c.arch->drops_halves) {
      parts.push_back(spec.ffn > 0 ? message("MLP of ", spec.ffn) : "no MLP");
    }
    if (parts.empty()) parts.emplace_back("attention");
    text += message(text.empty() ? "layers          " : "                ", count, " x ", with_commas(parts), "\n");
  }
  return text;
}

Json kinds_json(const ModelConfig& c) {
  Json kinds = Json::array();
  for (const auto& [spec, count] : kinds_of(c)) {
    kinds.push_back({{"layers", count}, {"kv_heads", attends(spec.mixer) ? spec.kv_heads : 0}, {"head_dim", c.head_dim_of(spec)}, {"kv_layer", spec.kv_layer}, {"window", spec.window}, {"ffn", spec.ffn}, {"experts", spec.experts},
                     {"experts_used", spec.is_sparse() ? c.router.used : 0}, {"expert_ffn", spec.expert_ffn}});
  }
  return kinds;
}

/// What a model is for where that is not to go on with texts alone.
std::string use_text(const ModelConfig& c) {
  std::string text;
  if (!c.arch->causal) text += "\nattention       all tokens of a text see each other";
  if (c.has_source()) text += message("\nreads           a text by an encoder of ", c.encoder_layers, " layers; writes by a decoder of ", c.layers - c.encoder_layers, ", from token ", c.decoder_start, " on");
  if (c.labels > 0) return text + message("\nmakes           ", c.labels, c.labels == 1 ? " score" : " scores", " of a text or a pair, from pooling by ", name_of(c.usual_pooling()));
  if (c.pooling || !c.has_head) text += message("\nmakes           embeddings, pooling by ", name_of(c.usual_pooling()), c.pooling ? "" : " (the file says nothing)");
  return text;
}

Json describe(const ModelConfig& c) {
  const bool same_heads = std::ranges::all_of(c.specs, [&](const LayerSpec& spec) { return c.head_dim_of(spec) == c.head_dim; });
  const bool alike = c.is_uniform() && std::ranges::all_of(c.specs, [&](const LayerSpec& spec) { return spec.kv_heads == c.layer(0).kv_heads && spec.ffn == c.layer(0).ffn; });
  const bool same_window = windowed_layers(c) == (c.window > 0 ? c.layers : 0);
  return {{"dim", c.dim},
          {"layers", c.layers},
          {"heads", sizes_json(c, &ModelConfig::heads_of, alike)},
          {"kv_heads", sizes_json(c, &ModelConfig::kv_heads_of, alike)},
          {"head_dim", sizes_json(c, &ModelConfig::head_dim_of, same_heads)},
          {"ffn", sizes_json(c, &ModelConfig::ffn_of, alike)},
          {"vocab", c.vocab},
          {"context", c.context},
          {"norm_eps", c.norm_eps},
          {"rope_base", c.rope.base},
          {"window", sizes_json(c, &ModelConfig::window_of, same_window)},
          {"experts", c.router.experts},
          {"experts_used", c.router.used * (c.has_experts() ? 1 : 0)},
          {"expert_ffn", c.has_experts() ? c.layer(c.dense_layers()).expert_ffn : 0},
          {"dense_layers", c.dense_layers()},
          {"kinds", kinds_json(c)},
          {"per_layer_dim", c.per_layer_dim},
          {"streams", std::max<std::int64_t>(1, c.streams)},
          {"causal", c.arch->causal},
          {"encoder_layers", c.encoder_layers},
          {"generates", c.has_head},
          {"pooling", c.pooling ? Json(name_of(*c.pooling)) : Json()},
          {"labels", c.labels},
          {"label_names", c.labels > 0 ? Json(c.names_of_labels()) : Json()},
          {"tied", c.tied}};
}

std::vector<std::int64_t> shape_of(const CheckpointTensor& tensor) {
  return tensor.is_matrix ? std::vector{tensor.rows, tensor.columns} : std::vector{tensor.columns};
}

struct Verification {
  HeaderHash header = HeaderHash::absent;
  std::int64_t stored = 0;
  std::vector<std::string> missing;  ///< a native file's tensors without a hash
  std::vector<std::string> bad;
};

Verification verify(const Checkpoint& checkpoint, bool show_progress) {
  Verification result;
  if (checkpoint.container() == "bantam") {
    result.header = check_header(checkpoint.path());
    if (result.header == HeaderHash::wrong) result.bad.push_back("header");
  }
  ProgressBar bar(show_progress);
  std::int64_t done = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!tensor.expected_hash.empty()) {
      ++result.stored;
      if (content_hash(tensor.source->parts()[0].bytes) != tensor.expected_hash) result.bad.push_back(tensor.tensor_name());
      checkpoint.drop(tensor);
    } else if (checkpoint.container() == "bantam") {
      result.missing.push_back(tensor.tensor_name());
    }
    bar.show(++done, static_cast<std::int64_t>(checkpoint.tensors().size()), tensor.name);
  }
  return result;
}

/// Throws for what verify() found; the tensors' names are on the line.
void complain(const Checkpoint& checkpoint, const Verification& found) {
  if (found.bad.empty() && found.missing.empty()) return;
  std::vector<std::string> names = found.bad;
  names.insert(names.end(), found.missing.begin(), found.missing.end());
  fail(Errc::corrupt, printable(checkpoint.path().string(), 4096),
       ": expected the bytes that the stored hashes describe, found ", found.bad.size(), " parts that differ and ",
       found.missing.size(), " without a hash: ", with_commas(names, [](const std::string& name) { return printable(name); }));
}

Json as_json(const Checkpoint& checkpoint, const std::optional<Verification>& verification) {
  const Footprint sizes = footprint_of(checkpoint);
  const ModelConfig& config = checkpoint.config();
  const nn::SequenceState state = config.new_state("f16");
  Json json = {
      {"path", checkpoint.path().string()},
      {"container", checkpoint.container()},
      {"architecture", std::string(config.arch->name)},
      {"config", describe(config)},
      {"parameters", sizes.parameters},
      {"active_parameters", sizes.active_parameters},
      {"bytes_per_token", sizes.token_bytes},
      {"bytes", checkpoint.stored_bytes()},
      {"bits_per_weight", sizes.bits_per_weight()},
      {"kv_bytes_per_token", state.bytes_per_token()},
      {"tensors", Json::array()},
      {"tokenizer", describe(checkpoint.tokenizer())},
      {"recipe", Json::parse_or_null(checkpoint.recipe())},
      {"verify", nullptr}};
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    json["tensors"].push_back({{"name", tensor.tensor_name()},
                               {"shape", shape_of(tensor)},
                               {"format", tensor.stored_as()},
                               {"bytes", tensor.stored_bytes()}});
  }
  if (!checkpoint.left_out().empty()) json["left_out"] = checkpoint.left_out();
  if (verification) {
    json["verify"] = {{"hashes", verification->stored},
                      {"missing", verification->missing},
                      {"bad", verification->bad},
                      {"header", verification->header != HeaderHash::absent}};
  }
  return json;
}

std::string as_text(const Tokenizer& tokenizer) {
  const auto id = [](TokenId token) { return token >= 0 ? message(token) : std::string("none"); };
  return message("tokenizer       ", tokenizer.kind(), ", ", tokenizer.vocab_size(), " tokens, bos ",
                 id(tokenizer.bos()), tokenizer.adds_bos() ? " (added)" : "", ", eos ", id(tokenizer.eos()),
                 ", unknown ", id(tokenizer.unknown()), "\nchat template   ",
                 tokenizer.chat_template().empty() ? "none" : "yes", "\n");
}

/// How many tensors one line stands for, from the `i`-th on: all experts', where they are stored alike.
std::size_t in_one_line(const Checkpoint& checkpoint, std::size_t i) {
  const auto& tensors = checkpoint.tensors();
  const CheckpointTensor& first = tensors[i];
  if (first.expert != 0) return 1;
  const auto alike = [&](const CheckpointTensor& other) { return other.layer == first.layer && other.role == first.role && other.stored_as() == first.stored_as(); };
  std::size_t end = i;
  while (end < tensors.size() && alike(tensors[end])) ++end;
  return static_cast<std::int64_t>(end - i) == checkpoint.config().layer(first.layer).experts ? end - i : 1;
}

/// What names begin with, each once: "vision_tower, multi_modal_projector".
std::string parts_text(const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (std::string_view name : names) {
    if (name.starts_with("model.")) name.remove_prefix(6);
    std::string part(name.substr(0, name.find('.')));
    // Few in real models.
    if (parts.size() < 16 && std::ranges::find(parts, part) == parts.end()) parts.push_back(printable(part));
  }
  return with_commas(parts);
}

std::string as_text(const Checkpoint& checkpoint, const std::optional<Verification>& verification) {
  const Footprint sizes = footprint_of(checkpoint);
  const ModelConfig& c = checkpoint.config();
  const nn::SequenceState state = c.new_state("f16");
  std::string out =
      message("architecture    ", c.arch->name, " (", checkpoint.container(), ")\nsizes           ", c.layers,
              " layers, dim ", c.dim, ", ", sizes_text(c, &ModelConfig::heads_of), " heads of ", sizes_text(c, &ModelConfig::head_dim_of), ", ",
              sizes_text(c, &ModelConfig::kv_heads_of), " kv heads, ", c.has_experts() ? "" : message("ffn ", sizes_text(c, &ModelConfig::ffn_of), ", "), "vocab ", c.vocab, c.tied ? " (tied)" : "", "\ncontext         ", c.context, " tokens");
  if (c.window > 0) out += message(", window ", c.window);
  if (const std::int64_t windowed = windowed_layers(c); windowed > 0 && windowed < c.layers) out += message(" in ", windowed, " of ", c.layers, " layers");
  if (c.per_layer_dim > 0) out += message(", per-layer embeddings of ", c.per_layer_dim);
  if (c.has_streams()) out += message(", ", c.streams, " residual streams");
  if (c.ngrams.exist()) out += message(", n-grams of up to ", c.ngrams.tokens, " tokens");
  out += use_text(c);
  const bool differ = std::ranges::any_of(c.specs, [](const LayerSpec& spec) { return spec.head_dim > 0 || spec.kv_layer >= 0; });
  out += "\n" + (c.has_experts() || differ || !c.is_uniform() ? kinds_text(c) : std::string());
  out += message("parameters      ", sizes.parameters, c.has_experts() ? message(", ", sizes.active_parameters, " of them work for a token, in ", in_bytes(sizes.token_bytes)) : "",
                 "\nbytes           ", checkpoint.stored_bytes(), " (",
                 in_bytes(checkpoint.stored_bytes()), "), ",
                 fixed(sizes.bits_per_weight(), 3),
                 " bits a weight as stored\nkv cache        ", state.bytes_per_token(), c.arch->causal ? " bytes a token in f16\n" : " bytes a token, of one layer after the other\n",
                 c.has_source() ? message("source cache    ", c.new_source("f16").bytes_per_token(), " bytes a token that the encoder reads, in f16\n") : std::string(),
                 as_text(checkpoint.tokenizer()));
  if (const auto& names = checkpoint.left_out(); !names.empty()) {
    out += message("left out        ", names.size(), " tensors of other parts than the language model: ", parts_text(names), "\n");
  }
  if (!checkpoint.recipe().empty()) out += message("recipe          ", printable(checkpoint.recipe(), 1000), "\n");
  if (verification) {
    out += verification->stored == 0 && verification->missing.empty()
               ? "verify          this file stores no hashes\n"
               : message("verify          ", verification->stored, " hashes stored, ", verification->bad.size(),
                         " parts differ",
                         verification->header == HeaderHash::absent ? "; the header has no hash: the file is of an older version\n" : "\n");
  }
  Table table("lrlr");
  table.add({"tensor", "shape", "format", "bytes"});
  for (std::size_t i = 0, count = 0; i < checkpoint.tensors().size(); i += count) {
    const CheckpointTensor& tensor = checkpoint.tensors()[i];
    count = in_one_line(checkpoint, i);
    table.add({printable(count > 1 ? name_of_experts(tensor.tensor_name(), tensor.expert) : tensor.tensor_name()), message(count > 1 ? message(count, " x ") : "", to_string(shape_of(tensor))),
               tensor.stored_as(), message(static_cast<std::int64_t>(count) * tensor.stored_bytes())});
  }
  return out + "\n" + table.text();
}

int inspect_vocabulary(const InspectOptions& o) {
  const Tokenizer tokenizer = open_tokenizer(o.model);
  if (o.common.json) {
    print_json({{"path", o.model},
                {"container", "vocabulary"},
                {"architecture", nullptr},
                {"config", nullptr},
                {"parameters", 0},
                {"bytes", 0},
                {"bits_per_weight", nullptr},
                {"tensors", Json::array()},
                {"tokenizer", describe(tokenizer)},
                {"recipe", nullptr},
                {"verify",
                 o.verify ? Json{{"hashes", 0}, {"missing", Json::array()}, {"bad", Json::array()}, {"header", false}} : Json(nullptr)}});
    return 0;
  }
  print(message("a vocabulary without a model\n", as_text(tokenizer),
                o.verify ? "verify          this file stores no hashes\n" : ""));
  return 0;
}

int inspect(const InspectOptions& o) {
  apply(o.common);
  if (is_vocabulary_only(find_model(o.model))) return inspect_vocabulary(o);
  const Checkpoint checkpoint = open_checkpoint(o.model, o.gptq_zero);
  std::optional<Verification> verification;
  if (o.verify) verification = verify(checkpoint, !o.common.json);
  o.common.json ? print_json(as_json(checkpoint, verification)) : print(as_text(checkpoint, verification));
  if (verification) complain(checkpoint, *verification);
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "inspect", "show architecture, sizes, tensors, tokenizer and recipe");
  const auto o = std::make_shared<InspectOptions>();
  add_argument(verb, "MODEL", o->model, "a model of any kind, or a vocabulary alone");
  add_flag(verb, "--verify", o->verify, "read everything and compare with the hashes that native files store");
  add_gptq_zero(verb, o->gptq_zero);
  add_common(verb, o->common);
  finish_verb(
      verb,
      "Exit status 1 when a stored hash does not match; the tensors are named.\n\n"
      "Examples:\n"
      "  bantam inspect model.gguf\n"
      "  bantam inspect q4.bantam --verify\n"
      "  bantam inspect q4.bantam --json | jq .config",
      [o, &action] { action = [o] { return inspect(*o); }; });
}

}  // namespace bantam::cli
