// Compression in memory and from file to file, and what it reports.
#include <sstream>

#include "bantam/compress/options.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/io/file.hpp"
#include "objects.hpp"

using namespace bantam;
using namespace bantam::capi;

namespace {

/// What the options ask for, before any model is known.
struct Order {
  bantam_compress_options options;
  CompressRequest request;
  PruneRequest prune;
};

Order read_order(const bantam_compress_options* given) {
  const bantam_compress_options initial = BANTAM_COMPRESS_OPTIONS_INIT;
  Order order{options_of(given, initial, "compress options"), {}, {}};
  const bantam_compress_options& o = order.options;
  CompressRequest& request = order.request;
  set_option(request, "method", &need(o.method, "method"));
  set_option(request, "format", &need(o.format, "format"));
  set_option(request, "desc_act", o.desc_act != 0 ? "on" : "off");
  if (o.calibration_path != nullptr) request.calibration_path = o.calibration_path;
  request.group = o.group;
  request.calibration.samples = o.samples;
  request.calibration.tokens = o.tokens;
  for (std::size_t i = 0; i < o.keep_count; ++i) set_option(request, "keep", &need((&need(o.keep, "keep"))[i], "keep"));
  read_settings(o.settings, o.setting_count, "", [&](std::string_view name, std::string_view value) {
    set_option(request, name, value);
    return true;
  });
  order.prune = prune_of(request);
  if (order.prune.goal && o.choose != nullptr) {
    fail(Errc::invalid_argument, "prune_to: expected formats by name, for the costs to be known, found a function that chooses them");
  }
  return order;
}

Recipe recipe_of(const Order& order, const Checkpoint& checkpoint) {
  const bantam_compress_options& o = order.options;
  CompressRequest request = order.request;
  request.keep.clear();
  // What is chosen for is what will be left.
  const Checkpoint left = outline_of(checkpoint, plan_structure(checkpoint.config(), order.prune.removals));
  for (const CheckpointTensor& tensor : left.tensors()) {
    if (o.choose == nullptr || !tensor.is_matrix) continue;
    const bantam_tensor_info info = describe(tensor);
    if (const char* format = o.choose(&info, o.choose_user)) request.keep.emplace_back(tensor.name, format);
  }
  request.keep.insert(request.keep.end(), order.request.keep.begin(), order.request.keep.end());
  return bantam::recipe_of(request);
}

CalibrationText calibration_of(const Order& order, bool needed) {
  const bantam_compress_options& o = order.options;
  CalibrationText text = order.request.calibration;
  if (o.calibration_text_bytes != 0) text.text = text_of(o.calibration_text, o.calibration_text_bytes, "calibration_text");
  if (o.calibration_path != nullptr || !order.request.calibration_path.empty()) {
    if (text.text) fail(Errc::invalid_argument, "calibration: expected a path or a text, found both");
    text.text = read_text_file(order.request.calibration_path);
  }
  if (!text.text && needed) {
    log_warning("calibration: no text was given, a bundled one is used: one of your own, like what the model will read, is better");
  }
  return text;
}

ProgressFn progress_of(const bantam_compress_options& o) {
  if (o.progress == nullptr) return {};
  return [callback = o.progress, user = o.progress_user](const Progress& p) {
    const bantam_progress progress{sizeof(bantam_progress), p.done, p.total, p.layer.c_str(), p.relative_error, p.seconds_left};
    return callback(&progress, user) == 0;
  };
}

std::function<bool()> cancelled_of(const bantam_compress_options& o) {
  return [callback = o.cancelled, user = o.cancelled_user] { return callback != nullptr && callback(user) != 0; };
}

PreparedModel prepare(const Order& order, const Recipe& recipe, const Checkpoint& checkpoint) {
  return prepare_model(order.prune, checkpoint, recipe, order.request.target, calibration_of(order, needs_calibration(order.prune, recipe)), order.request.parts, progress_of(order.options));
}

/// The report as a handle; what was worth a word goes to the log.
std::unique_ptr<bantam_report> wrapped(Report report) {
  for (const std::string& line : report.warnings) log_warning(line);
  std::ostringstream summary;
  summary << report;
  std::string json = report.to_json();
  return std::unique_ptr<bantam_report>(new bantam_report{std::move(report), summary.str(), std::move(json)});
}

}  // namespace

extern "C" {

bantam_status bantam_model_compress(bantam_model** small, const bantam_model* model, const bantam_compress_options* options) {
  return guarded([&] {
    bantam_model*& out = need(small, "small");
    const Model& big = model_of(model);
    const Order order = read_order(options);
    if (order.request.target != Target::native || !order.request.journal.empty()) {
      fail(Errc::invalid_argument, "settings: expected no target and no journal in memory: they are of bantam_compress_file()");
    }
    const Recipe recipe = recipe_of(order, big.checkpoint());
    const CancelScope scope(cancelled_of(order.options));
    const Model whole = with_adapters(order.request, big);
    const PreparedModel ready = prepare(order, recipe, whole.checkpoint());
    auto [result, report] =
        compress(ready.pruned ? Model::from_checkpoint(ready.pruned->checkpoint) : whole, recipe, progress_of(order.options), ready.calibration);
    if (ready.pruned) report.follow(ready.pruned->report);
    auto made = std::make_unique<bantam_model>(std::move(result));
    auto told = wrapped(std::move(report));
    if (order.options.report != nullptr) *order.options.report = told.release();
    out = made.release();
  });
}

bantam_status bantam_compress_file(const char* from, const char* to, const bantam_compress_options* options) {
  return guarded([&] {
    const Order order = read_order(options);
    const Checkpoint checkpoint = merged(order.request, Checkpoint::open(&need(from, "from")));
    for (const std::string& line : checkpoint.warnings()) log_warning(line);
    const Recipe recipe = recipe_of(order, checkpoint);
    check_not_an_input(checkpoint, &need(to, "to"));
    const CancelScope scope(cancelled_of(order.options));
    const PreparedModel ready = prepare(order, recipe, checkpoint);
    Report report = compress_file(ready.pruned ? ready.pruned->checkpoint : checkpoint, to, recipe, order.request.target, progress_of(order.options),
                                  ready.calibration, order.request.journal);
    // The file is there: where memory runs out from here on, the report is what is lost, and not the call.
    std::unique_ptr<bantam_report> told;
    try {
      if (ready.pruned) report.follow(ready.pruned->report);
      told = wrapped(std::move(report));
    } catch (const std::bad_alloc&) {
    }
    if (order.options.report != nullptr) *order.options.report = told.release();
  });
}

bantam_status bantam_save_imatrix(const char* from, const char* to, const bantam_compress_options* options) {
  return guarded([&] {
    const Order order = read_order(options);
    const Checkpoint checkpoint = merged(order.request, Checkpoint::open(&need(from, "from")));
    for (const std::string& line : checkpoint.warnings()) log_warning(line);
    check_not_an_input(checkpoint, &need(to, "to"));
    const CancelScope scope(cancelled_of(order.options));
    const CalibrationText text = calibration_of(order, true);
    const std::string name = std::filesystem::path(order.request.calibration_path).filename().string();
    save_importance(checkpoint, samples_of(text, checkpoint), text.text && name.empty() ? "a text" : name, to);
  });
}

const char* bantam_compress_setting(size_t index, const char** meaning) {
  if (index >= compress_options().size()) return nullptr;
  const CompressOption& option = compress_options()[index];
  // They are literals, which end with a zero.
  if (meaning != nullptr) *meaning = option.meaning.data();
  return option.name.data();
}

bantam_status bantam_report_get_info(const bantam_report* report, bantam_report_info* info) {
  return guarded([&] {
    const bantam_report& r = need(report, "report");
    fill_struct(info,
                bantam_report_info{sizeof(bantam_report_info), r.report.bytes_before, r.report.bytes_after, r.report.bits_per_weight,
                                   r.report.seconds, r.report.layers.size(), r.summary.c_str(), r.json.c_str()},
                "info");
  });
}

bantam_status bantam_report_get_matrix(const bantam_report* report, size_t index, const char** name, const char** format,
                                       double* relative_error) {
  return guarded([&] {
    const auto& layers = need(report, "report").report.layers;
    if (index >= layers.size()) fail(Errc::invalid_argument, "index: expected below ", layers.size(), ", found ", index);
    if (name != nullptr) *name = layers[index].name.c_str();
    if (format != nullptr) *format = layers[index].format.c_str();
    if (relative_error != nullptr) *relative_error = layers[index].relative_error;
  });
}

bantam_status bantam_report_get_cost(const bantam_report* report, const char* cost, double* before, double* after) {
  return guarded([&] {
    const std::optional<PruneReport>& pruned = need(report, "report").report.pruned;
    const Cost asked = find_cost(&need(cost, "cost"));
    if (!pruned || pruned->before[asked] == 0) fail(Errc::not_found, "report: ", name_of(asked), ": ", pruned ? "not measured" : "no parts were removed");
    if (before != nullptr) *before = pruned->before[asked];
    if (after != nullptr) *after = pruned->after[asked];
  });
}

void bantam_report_free(bantam_report* report) { delete report; }

}  // extern "C"
