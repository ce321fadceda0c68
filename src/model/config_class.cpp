// Which architecture a config.json is of.
#include "model/config_class.hpp"

#include <algorithm>

#include "bantam/core/error.hpp"
#include "bantam/core/names.hpp"
#include "bantam/model/seeing.hpp"
#include "model/config_json.hpp"
#include "model/config_words.hpp"
#include "model/sentence_modules.hpp"
#include "text/json.hpp"

namespace bantam::inline v0::detail {

namespace {

/// Whether config.json says what an architecture has no number for.
bool is_chosen(const Json& json, const ConfigChoice& choice) {
  const Json* it = find_at(json, choice.key);
  if (!choice.text.empty()) return it == nullptr || it->is_null() ? choice.otherwise != 0 : *it == Json(choice.text);
  if (it == nullptr || it->is_null()) return choice.value == choice.otherwise;
  if (it->is_boolean()) return !choice.is_number && it->get<bool>() == (choice.value != 0);
  return it->is_number() && it->get<double>() == choice.value;
}

/// Those of some architectures, all of a class or a type, that the config's choices are of.
std::vector<const ArchSpec*> chosen(const std::vector<const ArchSpec*>& archs, const Json& json, const std::string& place) {
  const auto first_other = [&](const ArchSpec* arch) { return std::ranges::find_if(arch->choices, [&](const ConfigChoice& choice) { return !is_chosen(json, choice); }); };
  std::vector<const ArchSpec*> fitting;
  std::ranges::copy_if(archs, std::back_inserter(fitting), [&](const ArchSpec* arch) { return first_other(arch) == arch->choices.end(); });
  if (!fitting.empty() || archs.empty()) return fitting;
  // The one that most was said of.
  const ArchSpec* near = *std::ranges::max_element(archs, {}, [&](const ArchSpec* arch) { return first_other(arch) - arch->choices.begin(); });
  const ConfigChoice& choice = *first_other(near);
  const Json* found = find_at(json, choice.key);
  fail(Errc::unsupported, place, ": ", choice.key, ": expected ", !choice.text.empty() ? std::string(choice.text) : choice.is_number ? message(choice.value) : choice.value != 0 ? "true" : "false", " of a model of type ", near->name,
       ", found ", found == nullptr ? std::string("nothing") : printable(found->dump()));
}

/// Whether a class is an architecture's model without its own head.
bool is_without_head(const ArchSpec& arch, std::string_view name) {
  if (std::ranges::find(arch.more_classes, name) != arch.more_classes.end()) return true;
  const std::string_view stem = arch.class_stem();
  return !stem.empty() && name != arch.older_class && name.starts_with(stem) && (name == arch.class_of_classifier() || name == arch.class_without_head());
}

/// Whether a class is one of an architecture's.
bool is_class_of(const ArchSpec& arch, std::string_view name) {
  const bool is_same = std::ranges::find(arch.same_classes, name) != arch.same_classes.end();
  return arch.hf_class == name || (arch.older_class == name && !name.empty()) || is_same || is_without_head(arch, name);
}

/// What may have been meant, of the classes or types of all architectures.
std::string near_to(std::string_view name, std::string_view ArchSpec::* of) {
  std::vector<std::string_view> names;
  for (const ArchSpec* arch : architectures) names.push_back(arch->*of);
  return did_you_mean(name, names);
}

}  // namespace

const ArchSpec& find_hf_arch(const Json& json, const std::string& place, bool is_part) {
  // With and without experts some share a class and a type: Nemotron-H, Gemma 4.
  const bool turned_off = !flag_at(json, "enable_moe_block", place, true);
  const auto the_better = [&](const ArchSpec* found, const ArchSpec* arch) {
    const ConfigKey* experts = arch->find(Field::experts);
    const bool fits = experts != nullptr && !turned_off && number_at(json, experts->hf, place).value_or(0) > 0;
    return found == nullptr || fits ? arch : found;
  };
  const auto the_best = [&](auto&& is_named) {
    std::vector<const ArchSpec*> named;
    std::ranges::copy_if(architectures, std::back_inserter(named), is_named);
    const ArchSpec* found = nullptr;
    for (const ArchSpec* arch : chosen(named, json, place)) found = the_better(found, arch);
    return found;
  };
  const Json* classes = json.find("architectures");
  const bool is_named = classes != nullptr && classes->is_array() && !classes->empty() && (*classes)[0].is_string();
  const std::string_view class_name = is_named ? (*classes)[0].string() : std::string_view();
  if (is_named) {
    if (const ArchSpec* found = the_best([&](const ArchSpec* arch) { return is_class_of(*arch, class_name); })) return *found;
  }
  const std::string type = text_at(json, "model_type", place, "");
  // Where nobody knows the class, the type decides of a part, as transformers makes it (SmolVLM2's VLlama3ForCausalLM, a Llama), and of models
  // that see whose configs have the numbers of their text side by side with those of images (Qwen2.5-VL).
  if (is_named && !is_part && text_of_seeing(type) == nullptr) {
    fail(Errc::unsupported, place, ": architectures: expected one that `bantam formats` lists, found ", printable(class_name), near_to(class_name, &ArchSpec::hf_class));
  }
  // The text of a model that sees has a type of its own: qwen3_5_text.
  const std::string_view text = "_text", alone = type.ends_with(text) ? std::string_view(type).substr(0, type.size() - text.size()) : type;
  for (const std::string_view name : {std::string_view(type), alone}) {
    if (const ArchSpec* found = the_best([&](const ArchSpec* arch) { return arch->name == name; })) return *found;
    if (const ArchSpec* found = text_of_seeing(name)) return *found;
  }
  fail(Errc::unsupported, place, ": model_type: expected one that `bantam formats` lists, found ", printable(type), near_to(type, &ArchSpec::name));
}

const Json& text_part(const Json& json, std::string& place) {
  // Models that speak, too, have what reads and thinks in a part of its own (Qwen3-Omni). InternVL and Janus call the text their language model.
  if (const Json* thinker = member(json, "thinker_config"); thinker != nullptr && thinker->is_object()) {
    place += ": thinker_config";
    return text_part(*thinker, place);
  }
  constexpr const char* parts[] = {"text_config", "llm_config", "language_config"};
  const auto* key = std::ranges::find_if(parts, [&](const char* part) { return member(json, part) != nullptr; });
  const Json* text = key == std::end(parts) ? nullptr : member(json, *key);
  if (text == nullptr || !text->is_object()) return json;
  const Json* classes = member(json, "architectures");
  const bool is_known = classes != nullptr && classes->is_array() && !classes->empty() && std::ranges::any_of(architectures, [&](const ArchSpec* arch) { return (*classes)[0] == Json(arch->hf_class); });
  if (is_known) return json;
  place += message(": ", *key);
  return *text;
}

void read_class(const Json& json, const std::string& place, ModelConfig& c) {
  const Json* classes = member(json, "architectures");
  const bool named = classes != nullptr && classes->is_array() && !classes->empty() && (*classes)[0].is_string();
  const std::string_view name = named ? (*classes)[0].string() : std::string_view();
  if (named && is_without_head(*c.arch, name)) c.has_head = false;
  if (name.ends_with("ForSequenceClassification")) {
    // Tensors say how many, where there are some.
    const Json* labels = member(json, "id2label");
    c.labels = labels != nullptr && labels->is_object() ? std::clamp<std::int64_t>(static_cast<std::int64_t>(labels->size()), 1, 1 << 16) : 1;
    for (std::int64_t i = 0; labels != nullptr && labels->is_object() && i < c.labels; ++i) {
      const Json* label = member(*labels, std::to_string(i));
      if (label == nullptr || !label->is_string()) break;
      c.label_names.emplace_back(label->string());
    }
    c.label_use = label_use_of(text_at(json, "problem_type", place, ""), "problem_type", place);
    if (const std::string pooling = text_at(json, "classifier_pooling", place, ""); !pooling.empty()) {
      if (pooling != "cls" && pooling != "mean") fail(Errc::unsupported, place, ": classifier_pooling: expected cls or mean, found ", printable(pooling));
      c.pooling = find_pooling(pooling);
    }
  }
  if (c.arch->find(Role::token_type_embedding) != nullptr) {
    const double types = number_at(json, "type_vocab_size", place).value_or(2);
    c.token_types = types >= 1 && types <= 256 ? static_cast<std::int64_t>(types) : 1;
  }
  // Ours, in native files; folders of sentence-transformers have files of their own for it.
  if (const std::string pooling = text_at(json, "bantam_pooling", place, ""); !pooling.empty()) {
    try {
      c.pooling = find_pooling(pooling);
    } catch (const Error& error) {
      fail(Errc::corrupt, place, ": bantam_pooling: ", error.what());
    }
  }
  read_pooled_layers(json, place, c);
  if (member(json, "bantam_normalize") != nullptr) c.normalizes = flag_at(json, "bantam_normalize", place, true);
}

}  // namespace bantam::inline v0::detail
