// Taking the tensors of a module.
#include "module_tensors.hpp"

#include <algorithm>

#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

namespace {

template <class T>
float read_as(const std::byte* data, std::int64_t i) noexcept {
  return static_cast<float>(detail::load_as<T>(data + i * static_cast<std::int64_t>(sizeof(T))));
}

}  // namespace

FloatsView::FloatsView(const TensorEntry& entry) : data_(entry.bytes.data()) {
  if (entry.type == "F16") read_ = read_as<f16>;
  if (entry.type == "BF16") read_ = read_as<bf16>;
  if (entry.type == "F32") read_ = read_as<float>;
}

FloatsView FloatsView::powers(const TensorEntry& entry) noexcept {
  FloatsView view;
  view.data_ = entry.bytes.data();
  view.read_ = [](const std::byte* data, std::int64_t i) noexcept { return detail::power_of_two(detail::load_as<std::uint8_t>(data + i)); };
  return view;
}

void check_exponents(const TensorEntry& entry, const std::string& place) {
  if (const auto wrong = std::ranges::find(entry.bytes, std::byte{255}); wrong != entry.bytes.end()) {
    fail(Errc::corrupt, place, ": expected exponents up to 254, found 255 at ", wrong - entry.bytes.begin());
  }
}

const TensorEntry& ModuleTensors::take(std::string_view name) {
  const TensorEntry* entry = peek(name);
  if (entry == nullptr) fail(Errc::corrupt, place(name), ": expected such a tensor, found none");
  taken_.emplace_back(*entry);
  return *entry;
}

const TensorEntry& ModuleTensors::take(std::string_view name, std::string_view type, const std::vector<std::int64_t>& shape) {
  const TensorEntry& entry = take(name);
  if (entry.type != type) fail(Errc::corrupt, place(name), ": expected type ", type, ", found ", printable(entry.type));
  if (entry.shape != shape) fail(Errc::corrupt, place(name), ": expected shape ", to_string(shape), ", found ", to_string(entry.shape));
  return entry;
}

void ModuleTensors::pass_over(std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    if (const TensorEntry* entry = peek(name)) taken_.emplace_back(*entry);
  }
}

FloatsView ModuleTensors::floats(std::string_view name, const std::vector<std::int64_t>& shape) {
  const TensorEntry& entry = take(name);
  const FloatsView view(entry);
  if (!view.readable()) fail(Errc::corrupt, place(name), ": expected F16, BF16 or F32, found ", printable(entry.type));
  if (entry.shape != shape) fail(Errc::corrupt, place(name), ": expected shape ", to_string(shape), ", found ", to_string(entry.shape));
  return view;
}

float ModuleTensors::number(std::string_view name) {
  const TensorEntry* entry = peek(name);
  const bool is_scalar = entry != nullptr && entry->shape.empty();
  return floats(name, is_scalar ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{1})[0];
}

FloatsView ModuleTensors::exponents(std::string_view name, const std::vector<std::int64_t>& shape) {
  const TensorEntry& entry = take(name);
  if (entry.type != "U8" && entry.type != "F8_E8M0") fail(Errc::corrupt, place(name), ": expected U8 or F8_E8M0, found ", printable(entry.type));
  if (entry.shape != shape) fail(Errc::corrupt, place(name), ": expected shape ", to_string(shape), ", found ", to_string(entry.shape));
  check_exponents(entry, place(name));
  return FloatsView::powers(entry);
}

}  // namespace bantam::inline v0
