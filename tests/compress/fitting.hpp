// A tiny model to fit to budgets, and what a change to it really costs.
#pragma once

#include <cmath>
#include <cstdlib>

#include "bantam/compress/fit.hpp"
#include "bantam/core/parallel.hpp"
#include "compress/inputs.hpp"
#include "tiny_model.hpp"

namespace bantam::test {

struct Fitting {
  explicit Fitting(bool tied = false, const TinyModel& sizes = {}) : tiny(sizes) {
    set_parallel_threads(1);  // more would cost these small models more than they save
    tiny.tied = tied;
    tiny.make();
    tiny.write_folder(folder / "hf");
    checkpoint.emplace(Checkpoint::open(folder / "hf"));
  }
  ~Fitting() { set_parallel_threads(0); }
  Fitting(const Fitting&) = delete;
  Fitting& operator=(const Fitting&) = delete;

  [[nodiscard]] std::vector<Sensitivity> measure(const Recipe& recipe, SensitivityOptions options = {},
                                                 Target target = Target::native) const {
    return measure_sensitivity(*checkpoint, recipe, calibration, target, options);
  }
  /// KL(checkpoint || file) over the calibration samples, in double precision from the sessions' logits.
  [[nodiscard]] double divergence_of(const std::string& file) const {
    const Model base = Model::load(folder / "hf"), other = Model::load(folder / file);
    const auto vocab = static_cast<std::size_t>(base.config().vocab);
    double sum = 0;
    std::size_t count = 0;
    for (const std::vector<TokenId>& sample : calibration.samples) {
      const std::vector<float> p = logits_of(base, sample), q = logits_of(other, sample);
      for (std::size_t t = 0; t < sample.size(); ++t, ++count) {
        double p_sum = 0, q_sum = 0;
        for (std::size_t i = t * vocab; i < (t + 1) * vocab; ++i) {
          p_sum += std::exp(static_cast<double>(p[i]));
          q_sum += std::exp(static_cast<double>(q[i]));
        }
        for (std::size_t i = t * vocab; i < (t + 1) * vocab; ++i) {
          const double share = std::exp(static_cast<double>(p[i])) / p_sum;
          sum += share * std::log(share / (std::exp(static_cast<double>(q[i])) / q_sum));
        }
      }
    }
    return sum / static_cast<double>(count);
  }

  TinyModel tiny;
  TemporaryFolder folder;
  Calibration calibration = some_calibration();
  std::optional<Checkpoint> checkpoint;
};

inline const FormatCost& cost_of(const std::vector<Sensitivity>& sensitivities, const std::string& name,
                          const std::string& format) {
  for (const Sensitivity& one : sensitivities) {
    for (const FormatCost& cost : one.formats) {
      if (one.name == name && cost.format->name == format) return cost;
    }
  }
  FAIL("no such matrix or format: ", name, " ", format);
  std::abort();
}

}  // namespace bantam::test
