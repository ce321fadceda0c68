// `bantam formats` and `bantam cpuinfo`: what this build and this machine have.
#include <algorithm>

#include "bantam/compress/mix.hpp"
#include "bantam/core/cpu.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/model/seeing.hpp"
#include "bantam/model/source_type.hpp"
#include "options.hpp"
#include "output.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

std::vector<std::string> source_types() {
  std::vector<std::string> names;
  const std::string all = source_type_names();
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t comma = std::min(all.find(", ", at), all.size());
    names.push_back(all.substr(at, comma - at));
    at = comma + 2;
  }
  return names;
}

int print_formats(bool as_json) {
  // Some share a name, and in GGUF files more of them do.
  std::vector<std::string> names, classes, of_gguf;
  const auto add = [](std::vector<std::string>& to, std::string_view name) {
    if (std::ranges::find(to, name) == to.end()) to.emplace_back(name);
  };
  for (const ArchSpec* arch : architectures) {
    add(names, arch->name);
    add(classes, arch->hf_class);
    for (const std::string_view name : arch->same_classes) add(classes, name);
    add(of_gguf, arch->gguf_name());
  }
  for (const SeeingModel& model : seeing_models) {
    add(names, model.type);
    if (!model.gguf.empty()) add(of_gguf, model.gguf);
  }
  Table table("lrr");
  table.add({"format", "bits a weight", "group"});
  Json json = {
      {"formats", Json::array()}, {"architectures", names}, {"classes", classes}, {"gguf_architectures", of_gguf}, {"kv", kv_kinds()}, {"source_types", source_types()}};
  for (const FormatInfo& format : formats()) {
    json["formats"].push_back({{"name", std::string(format.name)},
                               {"id", static_cast<int>(format.id)},
                               {"bits_per_weight", format.bits_per_weight},
                               {"group", format.group}});
    table.add({std::string(format.name), fixed(format.bits_per_weight, 3),
               format.is_float     ? "-"
               : format.group == 0 ? "row"
                                   : message(format.group)});
  }
  std::vector<std::string> gguf_alone;
  json["gguf_formats"] = Json::array();
  for (const FormatInfo& format : vector_formats()) {
    json["gguf_formats"].push_back({{"name", std::string(format.name)}, {"bits_per_weight", format.bits_per_weight}, {"group", format.group}});
    gguf_alone.push_back(message(format.name, " (", fixed(format.bits_per_weight, 3), ")"));
  }
  std::vector<std::string> mixed;
  for (const Mix& mix : mixes()) mixed.emplace_back(mix.name);
  json["mixes"] = mixed;
  if (as_json) {
    print_json(json);
    return 0;
  }
  print(message(table.text(), "\nto GGUF alone:      ", with_commas(gguf_alone), "\nmixes of llama.cpp: ", with_commas(mixed), "\narchitectures:      ", with_commas(names), "\nclasses:            ", with_commas(classes), "\nof GGUF files:      ", with_commas(of_gguf), "\nkeys and values:    ", with_commas(kv_kinds()),
                "\ntypes read:         ", with_commas(source_types()), "\n"));
  return 0;
}

int print_cpuinfo(const CommonOptions& options) {
  const CpuFeatures& cpu = cpu_features();
  std::vector<std::string> features;
  for (const auto& [has, name] : {std::pair{cpu.avx2, "avx2"},
                                  {cpu.avx2_vnni, "avx_vnni"},
                                  {cpu.avx512, "avx512"},
                                  {cpu.avx512_vnni, "avx512_vnni"},
                                  {cpu.amx_int8, "amx_int8"},
                                  {cpu.neon, "neon"},
                                  {cpu.neon_dotprod, "neon_dotprod"}}) {
    if (has) features.emplace_back(name);
  }
  std::vector<std::string> isas;
  for (const KernelTable* table : kernel_tables()) isas.emplace_back(table->name);
  const std::string in_use = kernels_in_use().name;
  if (options.json) {
    print_json(
        {{"cpu", cpu_name()}, {"cores", usable_cores()}, {"features", features}, {"isas", isas}, {"isa", in_use}});
    return 0;
  }
  print(message("cpu:       ", printable(cpu_name()), "\ncores:     ", usable_cores(),
                " physical, usable by this process\nfeatures:  ", with_commas(features), "\nisas:      ", with_commas(isas),
                " (best first)\nin use:    ", in_use, "\n"));
  return 0;
}

}  // namespace

void add_formats(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "formats", "list weight formats, architectures and file types of this build");
  const auto options = std::make_shared<CommonOptions>();
  add_common(verb, *options);
  finish_verb(
      verb,
      "Examples:\n  bantam formats\n  bantam formats --json | jq -r '.formats[].name'",
      [options, &action] {
        action = [options] {
          apply(*options);
          return print_formats(options->json);
        };
      });
}

void add_cpuinfo(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "cpuinfo", "show what this machine's processor offers, and what is used of it");
  const auto options = std::make_shared<CommonOptions>();
  add_common(verb, *options);
  finish_verb(
      verb,
      "Examples:\n  bantam cpuinfo\n  BANTAM_ISA=avx2 bantam cpuinfo",
      [options, &action] {
        action = [options] {
          apply(*options);
          return print_cpuinfo(*options);
        };
      });
}

}  // namespace bantam::cli
