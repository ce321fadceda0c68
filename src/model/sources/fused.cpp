// Which part of a tensor belongs to a role.
#include "fused.hpp"

#include <algorithm>

#include "../packed/e2m1.hpp"
#include "bantam/core/error.hpp"
#include "bantam/quant/formats.hpp"
#include "plain_source.hpp"

namespace bantam::inline v0 {

namespace {

void check(const TensorEntry& entry, const std::vector<std::int64_t>& shape, const std::string& file) {
  const std::string place = message(file, ": ", printable(entry.name));
  if (entry.type != "U8") fail(Errc::corrupt, place, ": expected U8, found ", printable(entry.type));
  if (entry.shape != shape) fail(Errc::corrupt, place, ": expected shape ", to_string(shape), ", found ", to_string(entry.shape));
}

SharedSource open_blocks(const TensorEntry& blocks, const TensorSource& tensors, const std::string& file, const std::string& name, const ExpertShape& all) {
  const TensorEntry* scales = tensors.find(name + "_scales");
  if (scales == nullptr) fail(Errc::corrupt, file, ": expected tensor ", printable(name), "_scales, found none of that name");
  constexpr std::int64_t group = Mxfp4::group;
  if (all.columns % group != 0) {
    fail(Errc::corrupt, file, ": ", printable(blocks.name), ": expected a multiple of ", group, " columns, the config says ", all.columns);
  }
  check(blocks, {all.experts, all.rows, all.columns / group, group / 2}, file);
  check(*scales, {all.experts, all.rows, all.columns / group}, file);
  check_exponents(*scales, message(file, ": ", printable(scales->name)));
  return mxfp4_source(TensorPart(blocks), TensorPart(*scales), all.experts * all.rows, all.columns);
}

}  // namespace

Selection fused_part(const Fused& fused, std::int64_t count) noexcept {
  return fused.interleaved ? Selection::every(fused.part, fused.parts, count) : Selection::run(fused.part * count, count);
}

std::vector<SharedSource> open_fused_experts(const TensorSource& tensors, const std::string& file, const std::string& name, const Fused& fused,
                                             const ExpertShape& shape) {
  const ExpertShape all{shape.experts, fused.parts * shape.rows, shape.columns};
  const TensorEntry *floats = tensors.find(name), *blocks = tensors.find(name + "_blocks");
  const bool transposed = floats != nullptr && fused.transposed;
  SharedSource source;
  if (floats != nullptr) {
    source = open_plain(*floats, file, transposed ? std::vector{all.experts, all.columns, all.rows} : std::vector{all.experts, all.rows, all.columns});
  } else if (blocks != nullptr) {
    source = open_blocks(*blocks, tensors, file, name, all);
  } else {
    return {};
  }
  std::vector<SharedSource> matrices;
  for (std::int64_t e = 0; e < shape.experts; ++e) {
    SharedSource expert = slice(source, e, shape.experts);
    if (transposed) expert = transpose(std::move(expert));
    matrices.push_back(select_rows(std::move(expert), fused_part(fused, shape.rows)));
  }
  return matrices;
}

SharedSource latent_part(const SharedSource& from, const LatentShape& shape, const Fused& fused) {
  const std::int64_t both = shape.nope + shape.value;
  const SharedSource floats = in_floats(from);
  if (!fused.transposed) return select_rows(floats, {shape.nope, {{{}, {shape.heads, both}, {shape.value, 1}}}});
  std::vector<SharedSource> heads;
  for (std::int64_t h = 0; h < shape.heads; ++h) heads.push_back(transpose(select_rows(floats, Selection::run(h * both, shape.nope))));
  return stack(std::move(heads));
}

}  // namespace bantam::inline v0
