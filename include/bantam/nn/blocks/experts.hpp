// Experts: a router and the MLPs that it chooses from (Shazeer et al., arXiv:1701.06538), run side by side.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "bantam/nn/blocks/pass.hpp"
#include "bantam/nn/blocks/router.hpp"
#include "bantam/nn/blocks/weights/experts.hpp"
#include "bantam/nn/gates.hpp"
#include "bantam/nn/linear.hpp"
#include "bantam/nn/ops.hpp"

namespace bantam::inline v0::nn {

/// Moves experts to the front that are in memory until it is called again, and returns how many: BlockSource::acquire_experts().
using AcquireExperts = FunctionRef<std::size_t(std::span<std::int64_t> wanted)>;
inline constexpr auto all_in_memory = [](std::span<std::int64_t> wanted) noexcept { return wanted.size(); };

/// The block with its buffers. The weights of an expert are read once a pass, for all of the tokens that it was chosen for; those of one
/// that nobody chose are not. A token's experts are added in the order of their numbers: results depend neither on what else is in the
/// pass nor on the number of threads.
class Experts {
 public:
  /// Throws invalid_argument for options that do not go together.
  Experts(const KernelTable& kernels, const RouterOptions& options, ops::Gate gate, int threads);

  /// Weights that run() will be asked for. Throws invalid_argument for shapes that do not go together.
  void serve(const ExpertsWeights& weights);
  /// Room for passes of up to so many tokens over experts of these sizes; latent: what they read in the place of dim, if it is not 0.
  void resize(std::int64_t tokens, std::int64_t dim, std::int64_t ffn, std::int64_t latent = 0);
  /// Room for what adapters add to the experts of a layer, in passes that there is room for: so many terms, of `ranks` as LowRankTerms has them.
  void resize_terms(std::size_t terms, std::int64_t ranks) {
    terms_.reserve(terms);
    terms_.resize(2 * std::ssize(routed_), ranks, static_cast<int>(routers_.size()));
    products_.reserve(2 * next_row_.size());
  }
  /// The first part of run(): the experts of each token.
  void route(const Pass& pass, const ExpertsWeights& weights, const Activations& x, bool shared, std::span<const std::uint8_t> cold = {}) noexcept;
  /// out(t) = s(t) * out(t) + sum of weight_e * expert_e(x(t)) over the experts of token t, or of expert_e(weight_e x(t)):
  /// RouterOptions::scales_inputs. s(t) is 0 without `shared`: nothing was there before; else sigmoid(shared_gate x(t)), and 1 in a block
  /// without such a gate. x: floats (tokens, dim), at most as many as there is room for. `routed`: what the router reads, where it is not x.
  /// Experts are run in groups that `acquire` has in memory together, and added up at the end, which leaves the bits as they are. Eight
  /// phases of the team's, twelve with latent experts, and a sort of O(tokens * used + experts) between. `cold`: as Router::route() has it, for passes
  /// of few tokens: those that could not touch all experts. Throws what `acquire` throws.
  void run(const Pass& pass, const ExpertsWeights& weights, const Activations& x, bool shared, OutputRows out, const Activations* routed = nullptr,
           AcquireExperts acquire = all_in_memory, std::span<const std::uint8_t> cold = {});
  /// The experts of the first tokens of the last pass, (tokens, used); those of one in the order of their numbers.
  [[nodiscard]] std::span<const RoutedExpert> routed(std::int64_t tokens) const noexcept {
    return std::span(routed_).first(static_cast<std::size_t>(tokens * options_.used));
  }

 private:
  /// Neighboring rows of one expert.
  struct Segment {
    std::size_t expert = 0;
    Range rows;
  };
  /// A token that goes to an expert, and its row.
  struct Visit {
    std::int64_t token = 0;
    std::size_t expert = 0;
    std::int64_t row = 0;
    float weight = 0;
  };

  void sort(std::int64_t tokens) noexcept;
  /// narrow_ = latent_down x.
  void begin_group(std::span<const std::int64_t> experts) noexcept;
  void narrow(const Pass& pass, const ExpertsWeights& weights, const Activations& x) noexcept;
  /// outputs_ = expert_e(inputs) of the experts in group_; inputs: x, or what latent_down made of it.
  void run_group(const Pass& pass, const ExpertsWeights& weights, FloatRows inputs) noexcept;
  /// hidden_ = act(gate x) * up x of the rows in inputs_.
  void hide(const Pass& pass, const ExpertsWeights& weights) noexcept;
  /// sum += weight_e * outputs_ of the experts of token t, in the order of their numbers.
  void add_experts(std::int64_t t, float* sum) const noexcept;
  /// Calls f(t) for all tokens, dealt out.
  template <class F>
  static void for_tokens(Team& team, std::int64_t tokens, F&& f) noexcept {
    team.deal(tokens, team.grain_of(tokens, 4), [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) f(t);
    }, Work::routing);
  }
  /// What the shared expert counts for one token.
  [[nodiscard]] static float shared_weight(std::span<const float> gate, const float* x) noexcept;
  /// Calls f(visit) for all tokens and experts of group_, dealt out.
  template <class F>
  void for_visits(Team& team, F&& f) noexcept {
    const auto count = static_cast<std::int64_t>(visits_.size());
    team.deal(count, team.grain_of(count, 4), [&](Range part, int) {
      for (std::int64_t i = part.begin; i < part.end; ++i) {
        const Visit& visit = visits_[static_cast<std::size_t>(i)];
        if (group_of_[visit.expert] == groups_) f(visit);
      }
    }, Work::routing);
  }
  /// Deals out (expert, panel), so that nobody is idle beside one long expert. products_of(expert) to a list of products. What adapters add
  /// comes after it.
  template <class F>
  void multiply(const Pass& pass, const ExpertsWeights& weights, const Activations& x, std::int64_t panels, F&& products_of) noexcept {
    const std::int64_t items = std::ssize(group_) * panels;
    pass.team.deal(items, pass.team.grain_of(items), [&](Range part, int) {
      for (std::int64_t at = part.begin; at < part.end;) {
        const Segment& segment = group_[static_cast<std::size_t>(at / panels)];
        const std::int64_t first = at % panels, last = std::min(panels, first + part.end - at);
        const auto products = products_of(weights.experts[segment.expert]);
        detail::multiply_panels(kernels_, x, segment.rows, products, {first, last}, pass.fetch, segment.rows.begin);
        at += last - first;
      }
    }, Work::products);
    if (pass.adapters == nullptr || pass.adapters->terms().empty()) return;
    terms_.clear();
    products_.clear();
    for (const Segment& segment : group_) {
      for (const Product& product : products_of(weights.experts[segment.expert])) {
        if (find_terms(*pass.adapters, product.w, segment)) products_.push_back(product);
      }
    }
    terms_.run(kernels_, pass.team, x, products_, pass.fetch);
  }
  /// The terms of an expert's matrix, for the rows in which its tokens are; false: there are none.
  bool find_terms(const LowRankTerms& all, const WeightMatrix& w, const Segment& segment) noexcept {
    const auto row_of = [&](std::int64_t token) {
      const auto first = tokens_.begin() + segment.rows.begin, last = tokens_.begin() + segment.rows.end;
      return segment.rows.begin + (std::lower_bound(first, last, token) - first);
    };
    bool any = false;
    for (const LowRankTerm& term : all.terms()) {
      if (term.matrix != &w) continue;
      const Range rows{row_of(term.rows.begin), row_of(term.rows.end)};
      if (rows.begin == rows.end) continue;
      terms_.add({&w, term.update, rows, term.scale});  // there is room
      any = true;
    }
    return any;
  }

  const KernelTable& kernels_;
  const RouterOptions options_;
  const ops::Gate gate_;
  std::vector<Router> routers_;           ///< one a worker
  RowBuffer logits_;                      ///< (tokens, experts)
  std::vector<RoutedExpert> routed_;      ///< (tokens, used)
  std::vector<Visit> visits_;             ///< (tokens, used)
  std::vector<Segment> segments_;         ///< of experts that somebody chose, ascending
  std::vector<std::int64_t> chosen_;      ///< their numbers
  std::vector<Segment> group_;            ///< of segments_: those at work
  std::vector<std::int64_t> group_of_;    ///< (experts): the number of its group, once it is at work
  std::int64_t groups_ = 0;               ///< so far
  std::vector<std::int64_t> next_row_;    ///< (experts)
  std::vector<std::int64_t> tokens_;      ///< (rows): of each, ascending within an expert
  LowRankTerms terms_;                    ///< of experts, by rows
  std::vector<Product> products_;         ///< that have some
  std::vector<float> shared_;             ///< (tokens): what the shared expert counts
  Activations inputs_;                    ///< (rows, dim or latent): tokens sorted by expert
  Activations hidden_;                    ///< (rows, ffn)
  RowBuffer up_;                          ///< (rows, ffn)
  RowBuffer outputs_;                     ///< (rows, dim or latent)
  Activations wide_;                      ///< (tokens, dim): what latent_down reads
  RowBuffer narrow_;                      ///< (tokens, latent)
  Activations sums_;                      ///< (tokens, latent): what latent_up reads
  RowBuffer lifted_;                      ///< (tokens, dim)
};

inline Experts::Experts(const KernelTable& kernels, const RouterOptions& options, ops::Gate gate, int threads)
    : kernels_(kernels), options_(options), gate_(gate), routers_(static_cast<std::size_t>(threads), Router(options)),
      group_of_(static_cast<std::size_t>(options.experts)), next_row_(static_cast<std::size_t>(options.experts)) {}

inline void Experts::serve(const ExpertsWeights& weights) {
  const auto shape = [](const WeightMatrix& w) { return std::pair{w.rows(), w.columns()}; };
  const std::int64_t experts = std::ssize(weights.experts);
  if (experts < options_.used || experts > options_.experts || experts % options_.groups != 0) {
    fail(Errc::invalid_argument, "experts: expected ", options_.used, " to ", options_.experts, " in ", options_.groups, " groups, found ", experts);
  }
  const bool latent = !weights.latent_down.empty() || !weights.latent_up.empty(), gated = weights.are_gated();
  const auto [ffn, inner] = shape(weights.experts[0].up);
  const std::int64_t dim = latent ? weights.latent_down.columns() : inner;
  if (shape(weights.router) != std::pair{experts, dim} || !weights.router.format().is_float) {
    fail(Errc::invalid_argument, "experts: expected a router of floats, (", experts, ", ", dim, ")");
  }
  if (latent) {
    if (shape(weights.latent_down) != std::pair{inner, dim} || shape(weights.latent_up) != std::pair{dim, inner}) {
      fail(Errc::invalid_argument, "experts: expected projections to and from ", inner, " numbers, what experts read");
    }
    wide_.serve(kernels_, weights.latent_down);
    sums_.serve(kernels_, weights.latent_up);
  }
  const auto check = [](const std::vector<float>& vector, std::int64_t size, std::string_view what) {
    if (!vector.empty() && std::ssize(vector) != size) fail(Errc::invalid_argument, "experts: ", what, ": expected ", size, " numbers, found ", vector.size());
  };
  check(weights.router_bias, experts, "router bias");
  check(weights.selection_bias, experts, "selection bias");
  check(weights.shared_gate, dim, "shared gate");
  check(weights.router_scale, dim, "router scale");
  check(weights.expert_scale, experts, "expert scale");
  for (const MlpWeights& e : weights.experts) {
    check(e.gate_bias, ffn, "gate bias");
    check(e.up_bias, ffn, "up bias");
    check(e.down_bias, inner, "down bias");
    if ((e.gate.rows() == 0) == gated || (gated && shape(e.gate) != std::pair{ffn, inner}) || shape(e.up) != std::pair{ffn, inner} ||
        shape(e.down) != std::pair{inner, ffn}) {
      fail(Errc::invalid_argument, "experts: expected ", gated ? "gates and " : "no gates, ", "ups of (", ffn, ", ", inner, ") and downs the other way round");
    }
    if (gated) inputs_.serve(kernels_, e.gate);
    inputs_.serve(kernels_, e.up);
    hidden_.serve(kernels_, e.down);
  }
}

inline void Experts::resize(std::int64_t tokens, std::int64_t dim, std::int64_t ffn, std::int64_t latent) {
  const std::int64_t inner = latent > 0 ? latent : dim;
  const std::int64_t visits = tokens * options_.used;
  // Long segments begin at multiples of 16 rows.
  const std::int64_t rows = visits + 15 * std::min(options_.experts, visits / 16);
  logits_.resize(tokens, options_.experts);
  routed_.resize(static_cast<std::size_t>(visits));
  visits_.reserve(static_cast<std::size_t>(visits));
  segments_.reserve(static_cast<std::size_t>(std::min(options_.experts, visits)));
  chosen_.reserve(segments_.capacity());
  group_.reserve(segments_.capacity());
  shared_.resize(static_cast<std::size_t>(tokens));
  tokens_.resize(static_cast<std::size_t>(rows));
  inputs_.resize(rows, inner);
  hidden_.resize(rows, ffn);
  up_.resize(rows, ffn);
  outputs_.resize(rows, inner);
  if (latent == 0) return;
  wide_.resize(tokens, dim);
  narrow_.resize(tokens, latent);
  sums_.resize(tokens, latent);
  lifted_.resize(tokens, dim);
}

/// A counting sort: segments_, and the rows of visits_.
inline void Experts::sort(std::int64_t tokens) noexcept {
  std::ranges::fill(next_row_, 0);
  visits_.clear();
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < options_.used; ++i) {
      const RoutedExpert& routed = routed_[static_cast<std::size_t>(t * options_.used + i)];
      const auto expert = static_cast<std::size_t>(routed.expert);
      visits_.push_back({t, expert, next_row_[expert]++, routed.weight});
    }
  }
  segments_.clear();
  chosen_.clear();
  std::int64_t row = 0;
  for (std::size_t e = 0; e < next_row_.size(); ++e) {
    const std::int64_t count = next_row_[e];
    if (count == 0) continue;
    if (count >= 16) row = round_up<std::int64_t>(row, 16);
    next_row_[e] = row;
    segments_.push_back({e, {row, row + count}});
    chosen_.push_back(static_cast<std::int64_t>(e));
    row += count;
  }
  for (Visit& visit : visits_) {
    visit.row += next_row_[visit.expert];
    tokens_[static_cast<std::size_t>(visit.row)] = visit.token;
  }
}

inline void Experts::route(const Pass& pass, const ExpertsWeights& weights, const Activations& x, bool shared, std::span<const std::uint8_t> cold) noexcept {
  const std::int64_t tokens = x.tokens();
  const auto used = static_cast<std::size_t>(options_.used), experts = weights.experts.size();
  BANTAM_ASSERT(static_cast<std::size_t>(tokens) * used <= routed_.size());
  if (static_cast<std::size_t>(tokens) * used > experts) cold = {};
  linear(pass, x, {{weights.router, values_of(weights.router_bias), logits_.output()}});
  pass.team.deal(tokens, pass.team.grain_of(tokens, 4), [&](Range part, int worker) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      routers_[static_cast<std::size_t>(worker)].route({logits_.row(t), experts}, weights.selection_bias,
                                                       std::span(routed_).subspan(static_cast<std::size_t>(t) * used, used), cold);
      for (std::size_t i = 0; i < used && !weights.expert_scale.empty(); ++i) {
        RoutedExpert& one = routed_[static_cast<std::size_t>(t) * used + i];
        one.weight *= weights.expert_scale[static_cast<std::size_t>(one.expert)];
      }
      if (shared) shared_[static_cast<std::size_t>(t)] = shared_weight(weights.shared_gate, x.row(t));
    }
  }, Work::routing);
}

inline void Experts::narrow(const Pass& pass, const ExpertsWeights& weights, const Activations& x) noexcept {
  wide_.resize(x.tokens(), x.columns());  // had room for as many
  for_tokens(pass.team, x.tokens(), [&](std::int64_t t) {
    std::copy_n(x.row(t), x.columns(), wide_.row(t));
    wide_.quantize_row(kernels_, t);
    wide_.gather_row(kernels_, {&weights.latent_down}, t);
  });
  linear(pass, wide_, {{weights.latent_down, nullptr, narrow_.output()}});
}

inline void Experts::hide(const Pass& pass, const ExpertsWeights& weights) noexcept {
  const std::int64_t ffn = hidden_.columns(), panels = div_up<std::int64_t>(ffn, panel_rows);
  const bool gated = weights.are_gated();
  if (gated) {
    multiply(pass, weights, inputs_, 2 * panels, [&](const MlpWeights& e) {
      return std::array<Product, 2>{Product{e.gate, values_of(e.gate_bias), hidden_.output()},
                                    Product{e.up, values_of(e.up_bias), up_.output(), Readers{&e.gate, &e.up}.form_of(1)}};
    });
  } else {
    multiply(pass, weights, inputs_, panels, [&](const MlpWeights& e) { return std::array<Product, 1>{Product{e.up, values_of(e.up_bias), hidden_.output()}}; });
  }
  for_visits(pass.team, [&](const Visit& visit) {
    float* hidden = hidden_.row(visit.row);
    const MlpWeights& expert = weights.experts[visit.expert];
    ops::limited_gate(kernels_, gate_, hidden, gated ? up_.row(visit.row) : nullptr, expert.limit, hidden, ffn);
    hidden_.quantize_row(kernels_, visit.row);
    hidden_.gather_row(kernels_, {&expert.down}, visit.row);
  });
}

inline void Experts::add_experts(std::int64_t t, float* sum) const noexcept {
  const std::int64_t columns = inputs_.columns();
  for (std::int64_t i = 0; i < options_.used; ++i) {
    const auto at = static_cast<std::size_t>(t * options_.used + i);
    const float weight = options_.scales_inputs ? 1.0F : visits_[at].weight, *one = outputs_.row(visits_[at].row);
    for (std::int64_t c = 0; c < columns; ++c) sum[c] += weight * one[c];
  }
}

inline void Experts::begin_group(std::span<const std::int64_t> experts) noexcept {
  ++groups_;
  for (const std::int64_t expert : experts) group_of_[static_cast<std::size_t>(expert)] = groups_;
  group_.clear();
  std::ranges::copy_if(segments_, std::back_inserter(group_), [&](const Segment& segment) { return group_of_[segment.expert] == groups_; });
}

inline void Experts::run_group(const Pass& pass, const ExpertsWeights& weights, FloatRows inputs) noexcept {
  const std::int64_t inner = inputs_.columns();
  const bool gated = weights.are_gated();
  for_visits(pass.team, [&](const Visit& visit) {
    const MlpWeights& e = weights.experts[visit.expert];
    std::copy_n(inputs.values + visit.token * inputs.stride, inner, inputs_.row(visit.row));
    if (options_.scales_inputs) {
      float* row = inputs_.row(visit.row);
      for (std::int64_t c = 0; c < inner; ++c) row[c] *= visit.weight;
    }
    inputs_.quantize_row(kernels_, visit.row);
    inputs_.gather_row(kernels_, gated ? Readers{&e.gate, &e.up} : Readers{&e.up}, visit.row);
  });
  hide(pass, weights);
  multiply(pass, weights, hidden_, div_up<std::int64_t>(inner, panel_rows), [&](const MlpWeights& e) {
    return std::array<Product, 1>{Product{e.down, values_of(e.down_bias), outputs_.output()}};
  });
}

inline void Experts::run(const Pass& pass, const ExpertsWeights& weights, const Activations& x, bool shared, OutputRows out, const Activations* routed,
                         AcquireExperts acquire, std::span<const std::uint8_t> cold) {
  const bool latent = !weights.latent_down.empty();
  const std::int64_t tokens = x.tokens(), dim = x.columns(), inner = inputs_.columns();
  BANTAM_ASSERT(inner == (latent ? weights.latent_down.rows() : dim));
  route(pass, weights, routed != nullptr ? *routed : x, shared, cold);
  sort(tokens);
  if (latent) narrow(pass, weights, x);
  for (std::span<std::int64_t> rest = chosen_; !rest.empty(); rest = rest.subspan(group_.size())) {
    begin_group(rest.first(acquire(rest)));
    run_group(pass, weights, latent ? narrow_.input() : x.floats());
  }
  const auto begin = [&](std::int64_t t) {
    float* sum = out.values + t * out.stride;
    const float share = shared ? shared_[static_cast<std::size_t>(t)] : 0.0f;
    for (std::int64_t c = 0; c < dim; ++c) sum[c] = shared ? share * sum[c] : 0.0f;
    return sum;
  };
  if (!latent) {
    for_tokens(pass.team, tokens, [&](std::int64_t t) { add_experts(t, begin(t)); });
    return;
  }
  sums_.resize(tokens, inner);  // had room for as many
  for_tokens(pass.team, tokens, [&](std::int64_t t) {
    std::fill_n(sums_.row(t), inner, 0.0f);
    add_experts(t, sums_.row(t));
    sums_.quantize_row(kernels_, t);
    sums_.gather_row(kernels_, {&weights.latent_up}, t);
  });
  linear(pass, sums_, {{weights.latent_up, nullptr, lifted_.output()}});
  for_tokens(pass.team, tokens, [&](std::int64_t t) { kernels_.add(begin(t), lifted_.row(t), dim); });
}

inline float Experts::shared_weight(std::span<const float> gate, const float* x) noexcept {
  if (gate.empty()) return 1;
  double sum = 0;
  for (std::size_t c = 0; c < gate.size(); ++c) sum += static_cast<double>(gate[c]) * static_cast<double>(x[c]);
  return static_cast<float>(sigmoid(sum));
}

}  // namespace bantam::inline v0::nn
