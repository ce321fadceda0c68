// Finding out who quantized a folder.
#include "family.hpp"

#include <cctype>

#include "bantam/io/file.hpp"
#include "io/config_text.hpp"
#include "model/config_class.hpp"

namespace bantam::inline v0 {

namespace {

struct Entry {
  std::string_view method;  ///< quant_method
  std::unique_ptr<const PackedFamily> (*open)(const Json& config, const std::string& place, const OpenOptions& options);
};

/// gpt-oss: experts alone are quantized, all of a layer in one tensor, which Fused keys open.
class Plain final : public PackedFamily {
 public:
  [[nodiscard]] std::shared_ptr<MatrixSource> open(ModuleTensors, std::int64_t, std::int64_t) const override { return nullptr; }
};

std::unique_ptr<const PackedFamily> open_mxfp4(const Json&, const std::string&, const OpenOptions&) { return std::make_unique<Plain>(); }

/// To read another family: write its file, add it here.
constexpr Entry families[] = {
    {"gptq", open_gptq},
    {"awq", open_awq},
    {"bitsandbytes", open_bitsandbytes},
    {"compressed-tensors", open_compressed_tensors},
    {"fp8", open_fp8},
    {"modelopt", open_modelopt},
    {"mxfp4", open_mxfp4},
    {"bitnet", open_bitnet},
};

/// Old tools wrote their settings beside config.json, and no method into them.
struct Beside {
  const char* file;
  std::string_view method;
};
constexpr Beside besides[] = {{"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}, {"hf_quant_config.json", "modelopt"}};

// Real ones have a few kilobytes, a hundred with settings for each module.
constexpr std::size_t largest_config = 4 << 20;

std::unique_ptr<const PackedFamily> open_family(const Json& config, std::string_view method, const std::string& place, const OpenOptions& options) {
  for (const Entry& family : families) {
    if (family.method == method) return family.open(config, place, options);
  }
  fail(Errc::unsupported, place, ": quant_method ", printable(method), ": not yet; what works: ", with_commas(families, &Entry::method));
}

}  // namespace

std::unique_ptr<const PackedFamily> open_packed_family(const std::filesystem::path& folder, const OpenOptions& options) {
  std::string place = (folder / "config.json").string();
  const std::string text = detail::read_config_text(folder / "config.json");
  const Json whole = Json::parse(text, place);
  const bool of_whole = member(whole, "quantization_config") != nullptr || member(whole, "compression_config") != nullptr;
  // Kimi K2.5 says it of its text alone.
  const Json& json = of_whole ? whole : detail::text_part(whole, place);
  if (const Json* found = member(json, "quantization_config")) {
    const std::string key = place + ": quantization_config";
    expect(found->is_object(), key, "an object", *found);
    const Json& config = *found;
    // The first versions of bitsandbytes' config named no method.
    const bool old = member(config, "load_in_8bit") != nullptr || member(config, "load_in_4bit") != nullptr;
    const std::string method = text_or(config, "quant_method", old ? "bitsandbytes" : "", key);
    if (method.empty()) fail(Errc::corrupt, key, ": expected \"quant_method\", found none");
    return open_family(config, method, key, options);
  }
  // What compressed-tensors called it at first.
  if (const Json* found = member(json, "compression_config")) {
    const std::string key = place + ": compression_config";
    expect(found->is_object(), key, "an object", *found);
    return open_family(*found, "compressed-tensors", key, options);
  }
  for (const Beside& beside : besides) {
    const std::filesystem::path file = folder / beside.file;
    if (path_kind(file) == PathKind::nothing) continue;
    const std::string settings = read_text_file(file, largest_config);
    const Json config = Json::parse(settings, file.string());
    expect(config.is_object(), file.string(), "an object", config);
    return open_family(config, text_or(config, "quant_method", beside.method, file.string()), file.string(), options);
  }
  return nullptr;
}

std::int64_t whole_or(const Json& object, const char* key, std::int64_t low, std::int64_t high, std::int64_t otherwise, std::string_view place) {
  const Json* found = member(object, key);
  if (found == nullptr) return otherwise;
  const bool fits = found->is_number_integer() && (!found->is_number_unsigned() || found->get<std::uint64_t>() <= static_cast<std::uint64_t>(high)) &&
                    found->get<std::int64_t>() >= low && found->get<std::int64_t>() <= high;
  if (!fits) fail(Errc::corrupt, place, ": ", key, ": expected a whole number from ", low, " to ", high, ", found ", printable(found->dump()));
  return found->get<std::int64_t>();
}

NamePattern::NamePattern(std::string_view expression, std::string_view place)
    : regex_(Regex::compile(message("\\A(?:", expression, ")"), place)) {}

bool NamePattern::matches(std::string_view module) const {
  Regex::Matcher matcher(regex_, deadline_for(module.size()));
  matcher.start(module);
  Span match;
  return matcher.next(match) && match.begin == 0;
}

}  // namespace bantam::inline v0
