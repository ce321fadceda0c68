// Adapters as the matrices of a model have them.
#include "bantam/model/adapter.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "adapter_file.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/model/roles.hpp"
#include "bantam/quant/formats.hpp"
#include "core/number_text.hpp"
#include "fused_rows.hpp"
#include "io/stream_hash.hpp"
#include "match_tensors.hpp"
#include "sources/plain_source.hpp"

namespace bantam::inline v0 {

struct Adapter::Data {
  std::filesystem::path path;
  std::string place;
  bool has_scales = false;  ///< of the model, in its matrices, as GGUF files of some architectures have them
  std::vector<AdapterMatrix> matrices;
  std::vector<std::string> names;  ///< of each
  std::vector<AdapterRows> rows;
  std::int64_t rank = 0;
  std::int64_t bytes = 0;
  std::uint64_t fingerprint = 0;
};

namespace {

/// The tensors of a file, as what they add to the matrices of a model.
class AdapterMatcher {
 public:
  AdapterMatcher(const AdapterFile& file, const ModelConfig& config)
      : file_(file), config_(config), gguf_(file.container == Container::gguf), used_(file.tensors->tensors().size()) {}

  void match(std::vector<AdapterMatrix>& matrices, std::vector<std::string>& names, std::vector<AdapterRows>& rows) {
    for (std::int64_t layer = -1; layer < config_.layers; ++layer) {
      for_each_key(config_, layer, gguf_, [&](const TensorKey& key) {
        const RoleInfo& info = info_of(key.role);
        if (file_.use == AdapterUse::merge && layer < 0 && !is_norm(key.role)) match_rows(key);
        if (info.by_heads) {
          match_latent(key, layer);
        } else if (info.is_adaptable() && !info.is_looked_up()) {
          match_key(key, layer);
        }
      });
    }
    refuse_others();
    rows = std::move(rows_);
    if (found_.empty() && rows.empty()) fail(Errc::corrupt, file_.place, ": expected pairs of tensors, found none");
    // By layer: each of them asks for its own.
    std::ranges::sort(found_, {}, [](const Found& f) { return std::tuple(f.matrix.id.layer, f.matrix.id.role, f.matrix.id.expert); });
    for (Found& f : found_) {
      matrices.push_back(std::move(f.matrix));
      names.push_back(std::move(f.name));
    }
  }

 private:
  struct Found {
    AdapterMatrix matrix;
    std::string name;
  };
  struct Pair {
    const TensorEntry *a, *b;
    std::int64_t rank;
    double scale;
  };

  void match_key(const TensorKey& key, std::int64_t layer) {
    const std::string_view pattern = gguf_ ? key.gguf : key.hf, fused_pattern = gguf_ ? key.fused.gguf : key.fused.name;
    const TensorId id{key.role, layer};
    const auto [rows, columns] = shape_of(key.role, layer, config_);
    if (!info_of(key.role).is_of_expert()) {
      const std::optional<FusedRows> fused = fused_pattern.empty() ? std::nullopt : fused_rows(config_, key, layer, gguf_);
      if (const auto pair = fused ? find_pair(name_in(config_, fused_pattern, id)) : std::nullopt) {
        const SharedSource b = open(*pair->b, {fused->rows, pair->rank});
        add(id, *pair, load_a(*pair, id, columns), std::visit([&](const auto& own) { return select_rows(b, own); }, fused->own));
        if (const SharedSource all = magnitudes_of(name_in(config_, fused_pattern, id), fused->rows)) add_magnitudes(id, std::visit([&](const auto& own) { return select_columns(all, own); }, fused->own));
        return;
      }
      if (const auto pair = find_pair(name_in(config_, pattern, id))) {
        add(id, *pair, load_a(*pair, id, columns), open(*pair->b, {rows, pair->rank}));
        if (SharedSource all = magnitudes_of(name_in(config_, pattern, id), rows)) add_magnitudes(id, std::move(all));
      }
      return;
    }
    const std::int64_t experts = config_.layer(layer).experts;
    const auto stacked = is_stacked(pattern) ? find_pair(name_in(config_, pattern, id), experts > 1 ? 1 : 0) : std::nullopt;
    for (std::int64_t e = 0; e < experts && (stacked || !is_stacked(pattern)); ++e) {
      const TensorId one{key.role, layer, e};
      if (stacked) {
        const auto shape = [&](std::int64_t r, std::int64_t c) { return experts > 1 ? std::vector{experts, r, c} : std::vector{r, c}; };
        add(one, *stacked, checked(slice(open(*stacked->a, shape(stacked->rank, columns)), e, experts)), slice(open(*stacked->b, shape(rows, stacked->rank)), e, experts));
      } else if (const auto pair = find_pair(name_in(config_, pattern, one))) {
        add(one, *pair, load_a(*pair, one, columns), open(*pair->b, {rows, pair->rank}));
        if (SharedSource all = magnitudes_of(name_in(config_, pattern, one), rows)) add_magnitudes(one, std::move(all));
      }
    }
  }

  /// What a table or a head has in the place of its own numbers: all of it, or the rows of some tokens; and what is added to a table.
  void match_rows(const TensorKey& key) {
    const TensorId id{key.role};
    const std::string name = name_in(config_, key.hf, id), module = without_weight(name);
    const auto [rows, columns] = shape_of(key.role, -1, config_);
    for (const std::string& whole : {name, module + ".base_layer.weight"}) {
      const TensorEntry* entry = file_.tensors->find(whole);
      if (entry == nullptr) continue;
      used_[place_of(*entry)] = true;
      std::vector<std::int64_t> shape = stored_shape(id, config_, Container::folder);
      const bool is_flat = !shape.empty();
      if (!is_flat) shape = info_of(key.role).is_matrix() ? std::vector{rows, columns} : std::vector{columns};
      SharedSource values = open(*entry, shape);
      rows_.push_back({id, checked(is_flat ? as_row(std::move(values)) : std::move(values))});
    }
    if (key.role != Role::embedding) return;
    if (const TensorEntry* entry = file_.tensors->find(module + ".token_adapter.trainable_tokens_delta")) {
      used_[place_of(*entry)] = true;
      const auto outside = std::ranges::find_if(file_.tokens, [&](std::int64_t token) { return token >= config_.vocab; });
      if (outside != file_.tokens.end()) fail(Errc::corrupt, file_.place, ": trainable_token_indices: expected tokens below ", config_.vocab, ", found ", *outside);
      if (!file_.tokens.empty()) rows_.push_back({id, checked(open(*entry, {std::ssize(file_.tokens), columns})), file_.tokens});
    }
    // (B A)^T = A^T B^T, of an A with a column for each token.
    const TensorEntry *a = file_.tensors->find(module + ".lora_embedding_A"), *b = file_.tensors->find(module + ".lora_embedding_B");
    if (a == nullptr || b == nullptr || a->shape.size() != 2 || a->shape[0] < 1) return;  // refused as others are
    for (const TensorEntry* entry : {a, b}) used_[place_of(*entry)] = true;
    const Pair pair{b, a, a->shape[0], file_.scale(file_.names[place_of(*a)], a->shape[0])};
    add(id, pair, checked(transpose(open(*b, {columns, pair.rank}))), checked(transpose(open(*a, {pair.rank, rows}))));
  }

  /// DoRA's, of a matrix's rows; null: it has none.
  SharedSource magnitudes_of(const std::string& matrix, std::int64_t rows) {
    if (!file_.has_magnitudes) return nullptr;
    const std::string name = without_weight(matrix) + ".lora_magnitude_vector";
    const TensorEntry* entry = file_.tensors->find(name);
    if (entry == nullptr) entry = file_.tensors->find(name + ".weight");
    if (entry == nullptr) fail(Errc::corrupt, file_.place, ": expected tensor ", name, ", found none of that name");
    used_[place_of(*entry)] = true;
    return open(*entry, {rows});
  }
  /// Of what was found last.
  void add_magnitudes(const TensorId& id, SharedSource values) {
    std::vector<std::int64_t> order = arrangement_of(id, config_, file_.container).rows;
    if (!order.empty()) values = select_columns(std::move(values), IndexList{std::move(order)});
    const Tensor<float, 2> row = checked(values).dequantize();
    found_.back().matrix.magnitudes.assign(row.span().begin(), row.span().end());
  }

  /// Keys' and values' up-projections of latent attention, where they are changed in one: of each head the rows of its keys, then of its
  /// values. What brings queries into the latent space is the transpose of the first: (B A)^T = A^T B^T.
  void match_latent(const TensorKey& key, std::int64_t layer) {
    const std::string_view pattern = gguf_ ? key.fused.gguf : key.fused.name;
    const auto pair = pattern.empty() ? std::nullopt : find_pair(name_in(config_, pattern, {key.role, layer}));
    if (!pair) return;
    const std::int64_t heads = config_.heads_of(layer), nope = config_.head_dim - config_.rope.dim, both = nope + config_.value_dim;
    const WeightMatrix a = load_a(*pair, {key.role, layer}, config_.kv_rank);
    const SharedSource b = open(*pair->b, {heads * both, pair->rank});
    const WeightMatrix lifts = key.fused.transposed ? checked(transpose(open(*pair->a, {pair->rank, config_.kv_rank}))) : WeightMatrix();
    for (std::int64_t h = 0; h < heads; ++h) {
      const TensorId id{key.role, layer, h};
      if (key.fused.transposed) {
        add(id, *pair, checked(transpose(select_rows(b, Selection::run(h * both, nope)))), lifts);
      } else {
        add(id, *pair, a, checked(select_rows(b, Selection::run(h * both + nope, config_.value_dim))));
      }
    }
  }

  /// The tensors of a matrix by its name; nothing where it has none. `before`: axes before those of a matrix.
  std::optional<Pair> find_pair(const std::string& name, std::size_t before = 0) {
    const TensorEntry *a = file_.tensors->find(file_.a_of(name)), *b = file_.tensors->find(file_.b_of(name));
    if (a == nullptr && b == nullptr) return {};
    if (a == nullptr || b == nullptr) {
      const TensorEntry& there = a == nullptr ? *b : *a;
      fail(Errc::corrupt, file_.place, ": expected tensor ", a == nullptr ? file_.a_of(name) : file_.b_of(name), " beside ", printable(there.name), ", found none of that name");
    }
    if (a->shape.size() != before + 2 || a->shape[before] < 1) {
      fail(Errc::corrupt, file_.place, ": ", printable(a->name), ": expected shape (", before > 0 ? "experts, " : "", "rank, columns), found ", to_string(a->shape));
    }
    for (const TensorEntry* entry : {a, b}) used_[place_of(*entry)] = true;
    const std::int64_t rank = a->shape[before];
    return Pair{a, b, rank, file_.scale(file_.names[place_of(*a)], rank)};
  }
  [[nodiscard]] std::size_t place_of(const TensorEntry& entry) const { return static_cast<std::size_t>(&entry - file_.tensors->tensors().data()); }

  [[nodiscard]] SharedSource open(const TensorEntry& entry, const std::vector<std::int64_t>& shape) const { return open_plain(entry, file_.place, shape); }

  /// In floats; what is none of them is refused.
  [[nodiscard]] WeightMatrix checked(const SharedSource& source) const {
    WeightMatrix matrix = in_floats(source)->load(Reading::buffered, nullptr);
    RowCodes scratch;
    std::vector<float> row(static_cast<std::size_t>(matrix.columns()));
    for (std::int64_t r = 0; r < matrix.rows(); ++r) {
      matrix.read_row(r, row, scratch);
      const auto wrong = std::ranges::find_if(row, [](float x) { return !std::isfinite(x); });
      if (wrong == row.end()) continue;
      fail(Errc::corrupt, file_.place, ": ", printable(source->parts()[0].entry->name), ": expected finite numbers, found ", *wrong);
    }
    return matrix;
  }

  /// One serves all whose rows are in a tensor together.
  [[nodiscard]] WeightMatrix load_a(const Pair& pair, const TensorId& id, std::int64_t columns) {
    SharedSource source = open(*pair.a, {pair.rank, columns});
    std::vector<std::int64_t> order = arrangement_of(id, config_, file_.container).columns;
    if (!order.empty()) return checked(select_columns(std::move(source), IndexList{std::move(order)}));
    const auto [at, is_new] = shared_.try_emplace(pair.a);
    if (is_new) at->second = checked(source);
    return at->second;
  }

  void add(const TensorId& id, const Pair& pair, WeightMatrix a, SharedSource b) {
    std::vector<std::int64_t> order = arrangement_of(id, config_, file_.container).rows;
    if (!order.empty()) b = select_rows(std::move(b), IndexList{std::move(order)});
    add(id, pair, std::move(a), checked(b));
  }
  void add(const TensorId& id, const Pair& pair, WeightMatrix a, WeightMatrix b) {
    if (!std::isfinite(static_cast<float>(pair.scale))) fail(Errc::corrupt, file_.place, ": ", printable(pair.a->name), ": expected a scale in the range of floats, found ", pair.scale);
    found_.push_back({{id, {std::move(a), std::move(b), static_cast<float>(pair.scale)}}, file_.names[place_of(*pair.a)]});
  }

  /// Whether a tensor that is refused would be read to be merged.
  [[nodiscard]] bool is_merged_alone(std::string_view name) const {
    if (file_.use == AdapterUse::merge || gguf_) return false;
    return std::ranges::any_of(std::initializer_list<std::string_view>{".lora_embedding_", ".base_layer.", ".token_adapter."}, [&](std::string_view part) { return name.find(part) != name.npos; });
  }

  void refuse_others() const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) continue;
      fail(Errc::unsupported, file_.place, ": ", printable(file_.names[i]), ": expected changes of matrices that a model of type ", config_.arch->name,
           " multiplies by, embeddings not among them", is_merged_alone(file_.names[i]) ? ": such an adapter is merged (compress --merge-lora)" : "");
    }
  }

  const AdapterFile& file_;
  const ModelConfig& config_;
  bool gguf_;
  std::vector<bool> used_;  ///< of the file's tensors
  std::vector<Found> found_;
  std::vector<AdapterRows> rows_;
  std::map<const TensorEntry*, WeightMatrix> shared_;
};

std::uint64_t hash_of(std::span<const AdapterMatrix> matrices, std::span<const AdapterRows> rows) {
  std::vector<std::uint64_t> hashes;
  for (const AdapterMatrix& m : matrices) {
    std::uint32_t scale = 0;
    std::memcpy(&scale, &m.update.scale, sizeof scale);
    hashes.insert(hashes.end(), {static_cast<std::uint64_t>(m.id.role), static_cast<std::uint64_t>(m.id.layer), static_cast<std::uint64_t>(m.id.expert), scale});
    for (const WeightMatrix* matrix : {&m.update.a, &m.update.b}) hashes.push_back(XXH3_64bits(matrix->view().data, static_cast<std::size_t>(matrix->bytes())));
    if (!m.magnitudes.empty()) hashes.push_back(XXH3_64bits(m.magnitudes.data(), m.magnitudes.size() * sizeof m.magnitudes[0]));
  }
  for (const AdapterRows& r : rows) {
    hashes.insert(hashes.end(), {static_cast<std::uint64_t>(r.id.role), XXH3_64bits(r.values.view().data, static_cast<std::size_t>(r.values.bytes())), XXH3_64bits(r.places.data(), r.places.size() * sizeof r.places[0])});
  }
  return XXH3_64bits(hashes.data(), hashes.size() * sizeof hashes[0]);
}

}  // namespace

Adapter Adapter::load(const std::filesystem::path& path, const ModelConfig& config, AdapterUse use) {
  const AdapterFile file = open_adapter(path, config, use);
  auto data = std::make_shared<Data>();
  data->path = path;
  data->place = file.place;
  data->has_scales = config.arch->folds_scales && file.container == Container::gguf;
  AdapterMatcher(file, config).match(data->matrices, data->names, data->rows);
  std::set<const std::byte*> counted;  // what several share, once
  for (const AdapterMatrix& m : data->matrices) {
    data->rank = std::max(data->rank, m.update.rank());
    for (const WeightMatrix* matrix : {&m.update.a, &m.update.b}) data->bytes += counted.insert(matrix->view().data).second ? matrix->bytes() : 0;
  }
  for (const AdapterRows& rows : data->rows) data->bytes += rows.values.bytes();
  data->fingerprint = hash_of(data->matrices, data->rows);
  Adapter adapter(std::move(data));
  adapter.check_fits(config, use);
  return adapter;
}

const std::filesystem::path& Adapter::path() const noexcept { return data_->path; }
std::span<const AdapterMatrix> Adapter::matrices() const noexcept { return data_->matrices; }
std::span<const AdapterRows> Adapter::rows() const noexcept { return data_->rows; }
std::int64_t Adapter::rank() const noexcept { return data_->rank; }
std::int64_t Adapter::bytes() const noexcept { return data_->bytes; }
std::uint64_t Adapter::fingerprint() const noexcept { return data_->fingerprint; }

std::span<const AdapterMatrix> Adapter::of_layer(std::int64_t layer) const noexcept {
  const auto layer_of = [](const AdapterMatrix& m) { return m.id.layer; };
  return {std::ranges::lower_bound(data_->matrices, layer, {}, layer_of), std::ranges::upper_bound(data_->matrices, layer, {}, layer_of)};
}

void Adapter::check_fits(const ModelConfig& config, AdapterUse use) const {
  const bool merged_alone = !data_->rows.empty() || std::ranges::any_of(data_->matrices, [](const AdapterMatrix& m) { return !m.magnitudes.empty() || info_of(m.id.role).is_looked_up(); });
  if (use == AdapterUse::run && merged_alone) fail(Errc::unsupported, data_->place, ": expected an adapter that runs beside a model, found one that is merged (compress --merge-lora)");
  for (const AdapterRows& r : data_->rows) {
    const std::pair<std::int64_t, std::int64_t> expected = shape_of(r.id.role, -1, config);
    const bool fits = r.values.columns() == expected.second && (r.places.empty() ? r.values.rows() == expected.first : std::ranges::all_of(r.places, [&](std::int64_t place) { return place < expected.first; }));
    if (!fits) fail(Errc::invalid_argument, data_->place, ": expected rows of a matrix of (", expected.first, ", ", expected.second, ") in this model, found ", r.values.rows(), " of ", r.values.columns(), " numbers");
  }
  if (config.arch->folds_scales && data_->has_scales != (config.scales == ModelScales())) {
    constexpr std::string_view apart = "a model with scales in its config (a folder)", folded = "one with scales in its weights (a GGUF file)";
    fail(Errc::unsupported, data_->place, ": expected ", data_->has_scales ? folded : apart, ", found ", data_->has_scales ? apart : folded);
  }
  for (const AdapterMatrix& m : data_->matrices) {
    const bool by_heads = info_of(m.id.role).by_heads, in_layer = m.id.layer < config.layers && is_in_layer(m.id.role, m.id.layer, config);
    const bool there = in_layer && (m.id.expert < 0 || m.id.expert < (by_heads ? config.heads_of(m.id.layer) : config.layer(m.id.layer).experts));
    const std::pair found{m.update.b.rows(), m.update.a.columns()};
    std::pair expected = there ? shape_of(m.id.role, m.id.layer, config) : std::pair<std::int64_t, std::int64_t>{0, 0};
    if (there && by_heads) expected.first /= config.heads_of(m.id.layer);
    if (found == expected) continue;
    const std::string wanted = there ? message("a matrix of (", expected.first, ", ", expected.second, ")") : std::string("no such matrix");
    fail(Errc::invalid_argument, data_->place, ": ", printable(name_of(m)), ": expected ", wanted, " in this model, found changes of one of (", found.first, ", ", found.second, ")");
  }
}

const std::string& Adapter::name_of(const AdapterMatrix& matrix) const noexcept { return data_->names[static_cast<std::size_t>(&matrix - data_->matrices.data())]; }

AdapterChoice parse_adapter(std::string_view text) {
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) return {std::string(text), 1};
  const auto colon = text.rfind(':');
  if (colon != text.npos && colon > 0) {
    if (const auto scale = number_in<float>(text.substr(colon + 1)); scale && std::isfinite(*scale)) return {std::string(text.substr(0, colon)), *scale};
  }
  return {std::string(text), 1};
}

std::vector<ScaledAdapter> load_adapters(std::span<const AdapterChoice> choices, const ModelConfig& config, AdapterUse use) {
  std::vector<ScaledAdapter> adapters;
  for (const AdapterChoice& choice : choices) adapters.push_back({Adapter::load(choice.path, config, use), choice.scale});
  return adapters;
}

std::uint64_t fingerprint_of(std::span<const ScaledAdapter> adapters) noexcept {
  StreamHash hash;
  for (const ScaledAdapter& one : adapters) {
    const std::uint64_t fingerprint = one.adapter.fingerprint();
    hash.add(std::as_bytes(std::span(&fingerprint, 1)));
    hash.add(std::as_bytes(std::span(&one.scale, 1)));
  }
  return adapters.empty() ? 0 : hash.value();
}

}  // namespace bantam::inline v0
