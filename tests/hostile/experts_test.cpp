// Mixtures of experts that contradict themselves, in folders and GGUF files: one line that names the file, the place, what was
// expected and what was found, before anything runs.
#include <cmath>
#include <limits>

#include "tiny_model.hpp"

namespace bantam::test {
namespace {

enum class Container : std::uint8_t { folder, gguf };

std::vector<const ArchSpec*> mixtures() {
  std::vector<const ArchSpec*> all;
  std::ranges::copy_if(architectures, std::back_inserter(all), &ArchSpec::has_experts);
  return all;
}

std::string key_of(const ArchSpec& arch, Container container, Field field) {
  const ConfigKey* key = arch.find(field);
  if (key == nullptr) return "";
  if (container == Container::folder) return std::string(key->hf);
  return key->gguf.empty() ? "" : message(arch.gguf_name(), '.', key->gguf);
}

/// config.json says what the sizes say by now, as GGUF files do.
void restate(TinyModel& tiny) {
  for (const auto& list : {tiny.arch->config, tiny.arch->more_config}) {
    for (const ConfigKey& key : list) {
      // Step-3.5's heads differ from layer to layer; nothing here changes them.
      if (key.hf.empty() || key.field == Field::heads || tiny.arch->find(key.field) != &key) continue;
      if (const FieldValue value = value_of(tiny.sizes, key.field)) std::visit([&](auto number) { tiny.config[std::string(key.hf)] = number; }, *value);
    }
  }
}

/// What is said of a model with a change; `edit` changes the bytes of the file.
std::string refusal(const ArchSpec& arch, Container container, const std::function<void(TinyModel&)>& change, const std::function<void(std::string&)>& edit = {}) {
  TinyModel tiny{.arch = &arch, .sees = container == Container::folder, .fuses = false};
  tiny.make();
  change(tiny);
  const TemporaryFolder folder;
  const bool is_folder = container == Container::folder;
  const std::filesystem::path model = folder / (is_folder ? "hf" : "m.gguf"), file = is_folder ? model / "model.safetensors" : model;
  is_folder ? tiny.write_folder(model) : tiny.write_gguf(model);
  if (edit) {
    std::string bytes = read_file(file);
    edit(bytes);
    write_file(file, bytes);
  }
  const std::string line = error_of([&] { (void)Model::load(model); });
  CHECK_MESSAGE(line.find(model.string()) != std::string::npos, line);
  CHECK_MESSAGE(line.find('\n') == std::string::npos, line);
  return line;
}

LayerSpec& sparse_layer(TinyModel& tiny) { return tiny.sizes.specs[static_cast<std::size_t>(tiny.sizes.dense_layers())]; }

TEST_CASE("numbers of experts and routers that do not go together are refused by key") {
  struct Case {
    Field field;  ///< that the line names, and that the file has to have
    std::function<void(TinyModel&)> change;
    const char* words;
  };
  const std::vector<Case> cases{
      {Field::experts_used, [](TinyModel& t) { t.sizes.router.used = 7; }, "expected 1 to 6 experts a token, found 7"},
      {Field::experts_used, [](TinyModel& t) { t.sizes.router.used = std::int64_t{1} << 31; }, "expected a whole number from 1 to"},
      {Field::router_groups, [](TinyModel& t) { t.sizes.router.groups = 4; }, "expected groups that divide 6 experts, found 4"},
      {Field::router_groups, [](TinyModel& t) { t.sizes.router.groups = 1'000'000; }, "expected groups that divide 6 experts, found 1"},
      {Field::router_groups_used, [](TinyModel& t) { t.sizes.router.groups = 2, t.sizes.router.groups_used = 3; }, "expected 1 to 2 groups a token, found 3"},
      {Field::router_scale, [](TinyModel& t) { t.sizes.router.scale = -1; }, "expected a number above 0 and up to 1"},
      {Field::router_scale, [](TinyModel& t) { t.sizes.router.scale = 1e30f; }, "expected a number above 0 and up to 1"},
      {Field::shared_experts, [](TinyModel& t) { sparse_layer(t).ffn = 20 * 20'000; }, "expected a whole number from 0 to 16384, found 20000"},
      {Field::shared_ffn, [](TinyModel& t) { sparse_layer(t).ffn = 20 * (std::int64_t{1} << 27); }, "expected a whole number from 0 to"},
  };
  for (const ArchSpec* arch : mixtures()) {
    CAPTURE(std::string(arch->name));
    for (const Container container : {Container::folder, Container::gguf}) {
      CAPTURE(container == Container::gguf);
      for (const Case& c : cases) {
        const std::string key = key_of(*arch, container, c.field);
        // Who counts shared experts does not read their width.
        const bool counted = c.field == Field::shared_ffn && !key_of(*arch, container, Field::shared_experts).empty();
        if (key.empty() || counted) continue;
        CAPTURE(key);
        has(refusal(*arch, container, [&](TinyModel& tiny) { c.change(tiny), restate(tiny); }), key + ": " + c.words);
      }
    }
  }
}

TEST_CASE("groups that leave fewer experts than a token uses are refused by key") {
  const auto change = [](TinyModel& tiny) { tiny.sizes.router.groups = 6, restate(tiny); };
  has(refusal(archs::glm4_moe, Container::folder, change), "num_experts_per_tok: expected at most the 1 experts of 1 of 6 groups, found 2");
}

TEST_CASE("shapes of experts other than the numbers say are refused by name") {
  for (const ArchSpec* arch : mixtures()) {
    CAPTURE(std::string(arch->name));
    for (const Container container : {Container::folder, Container::gguf}) {
      CAPTURE(container == Container::gguf);
      const TensorKey* router = arch->find(Role::router, true);
      TinyModel whole{.arch = arch};
      const std::string name = name_from(container == Container::gguf ? router->gguf : router->hf, {Role::router, whole.make().sizes.dense_layers()});
      for (const std::int64_t experts : {5, 7}) {
        CAPTURE(experts);
        const std::string line = refusal(*arch, container, [&](TinyModel& tiny) {
          for (LayerSpec& spec : tiny.sizes.specs) spec.experts = spec.is_sparse() ? experts : 0;
          restate(tiny);
        });
        has(line, message(name, ": expected shape (", experts, ", 36), found (6, 36)"));
      }
      const std::string narrow = refusal(*arch, container, [&](TinyModel& tiny) {
        for (LayerSpec& spec : tiny.sizes.specs) spec.expert_ffn = spec.is_sparse() ? 19 : 0, spec.ffn = spec.is_sparse() && spec.ffn > 0 ? 38 : spec.ffn;
        restate(tiny);
      });
      has(narrow, "expected shape (");
      // Of the shared expert, whose halves may lie in one tensor.
      const bool is_shared = narrow.find("(38, 36), found (40, 36)") != std::string::npos || narrow.find("(76, 36), found (80, 36)") != std::string::npos;
      CHECK_MESSAGE((narrow.find("19, 36), found (") != std::string::npos || is_shared), narrow);
    }
  }
}

TEST_CASE("an expert that is missing, or there twice, is refused by name") {
  for (const ArchSpec* arch : mixtures()) {
    CAPTURE(std::string(arch->name));
    for (const Role role : {Role::expert_gate, Role::expert_up, Role::expert_down}) {
      if (arch->find(role, true) == nullptr) continue;  // experts without gates
      const TensorKey& key = *arch->find(role, true);
      const std::string third = name_from(key.hf, {role, 1, 3}), fourth = name_from(key.hf, {role, 1, 4});
      const std::string stack = name_from(key.gguf, {role, 1});
      CAPTURE(third);
      const auto without = [&](TinyModel& tiny) { tiny.remove(third); };
      has(refusal(*arch, Container::folder, without), "expected tensor " + third + ", found none of that name");
      has(refusal(*arch, Container::gguf, without), stack + ": expected shape (6, ");
      // The fourth under the name of the third; in GGUF the gates of layer 1 under those of another role.
      const auto renamed = [](const std::string& from, const std::string& to) {
        return [from, to](std::string& bytes) {
          const auto at = bytes.find(from);
          REQUIRE(at != std::string::npos);
          bytes.replace(at, from.size(), to);
        };
      };
      has(refusal(*arch, Container::folder, [](TinyModel&) {}, renamed('"' + fourth + '"', '"' + third + '"')), third);
      if (role != Role::expert_up) continue;
      TinyTensor more{third, stack, {36}, std::vector<float>(36), 0};
      has(refusal(*arch, Container::gguf, [&](TinyModel& tiny) { tiny.tensors.push_back(more); }), stack);
    }
  }
}

TEST_CASE("experts in one tensor and by themselves are one too many") {
  for (const ArchSpec* arch : mixtures()) {
    const TensorKey& key = *arch->find(Role::expert_up, true);
    if (key.fused.name.empty()) continue;
    CAPTURE(std::string(arch->name));
    const std::string fused = name_from(key.fused.name, {Role::expert_up, 1});
    for (const std::int64_t expert : {0, 3}) {
      const std::string single = name_from(key.hf, {Role::expert_up, 1, expert});
      const std::string line = refusal(*arch, Container::folder, [&](TinyModel& tiny) {
        TinyTensor more = tiny.tensor(single);
        more.fused_name.clear();
        tiny.fuses = true;
        tiny.tensors.push_back(more);
      });
      has(line, expert == 0 ? fused + ": expected a tensor of all experts or one of each, found " + single + " besides" : single + ": expected no such tensor");
    }
  }
}

TEST_CASE("routers and their biases that are no numbers are refused before a token is sent anywhere") {
  for (const ArchSpec* arch : mixtures()) {
    CAPTURE(std::string(arch->name));
    for (const Role role : {Role::router, Role::router_bias, Role::selection_bias}) {
      const TensorKey* key = arch->find(role, true);
      if (key == nullptr) continue;
      const std::string name = name_from(key->hf, {role, 1});
      CAPTURE(name);
      for (const Container container : {Container::folder, Container::gguf}) {
        for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
          TinyModel whole{.arch = arch, .fuses = false};
          whole.make();
          if (std::ranges::none_of(whole.tensors, [&](const TinyTensor& t) { return t.name == name; })) continue;  // optional
          const std::string place = role == Role::router ? "(2, 5)" : "(0, 2)";
          const std::string line = refusal(*arch, container, [&](TinyModel& tiny) { tiny.tensor(name).values[role == Role::router ? 2 * 36 + 5 : 2] = value; });
          has(line, name + ": expected finite numbers, found ");
          has(line, place);
        }
      }
    }
  }
}

}  // namespace
}  // namespace bantam::test
