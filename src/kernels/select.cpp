// Picks the kernel table that this machine runs.
#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "bantam/core/cpu.hpp"
#include "bantam/core/error.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/simd/arch.hpp"

namespace bantam::inline v0 {

namespace {

std::vector<const KernelTable*> available() {
  [[maybe_unused]] const CpuFeatures& cpu = cpu_features();
  std::vector<const KernelTable*> tables;
#if defined(BANTAM_ISA_amx) && !defined(BANTAM_AMX_EMULATED)
  if (cpu.amx_int8) tables.push_back(&kernels::table<simd::amx>());
#endif
#if defined(BANTAM_ISA_avx512vnni)
  if (cpu.avx512_vnni) tables.push_back(&kernels::table<simd::avx512vnni>());
#endif
#if defined(BANTAM_ISA_amx) && defined(BANTAM_AMX_EMULATED)
  if (cpu.amx_int8) tables.push_back(&kernels::table<simd::amx>());  // spelled out, it is there to be tested only
#endif
#if defined(BANTAM_ISA_avx512)
  if (cpu.avx512) tables.push_back(&kernels::table<simd::avx512>());
#endif
#if defined(BANTAM_ISA_avx2vnni) && !defined(BANTAM_VNNI_EMULATED)
  if (cpu.avx2_vnni) tables.push_back(&kernels::table<simd::avx2vnni>());
#endif
#if defined(BANTAM_ISA_avx2)
  if (cpu.avx2) tables.push_back(&kernels::table<simd::avx2>());
#endif
#if defined(BANTAM_ISA_avx2vnni) && defined(BANTAM_VNNI_EMULATED)
  if (cpu.avx2_vnni) tables.push_back(&kernels::table<simd::avx2vnni>());  // spelled out, it is there to be tested only
#endif
#if defined(BANTAM_ISA_dotprod)
  if (cpu.neon_dotprod) tables.push_back(&kernels::table<simd::dotprod>());
#endif
#if defined(BANTAM_ISA_neon)
  if (cpu.neon) tables.push_back(&kernels::table<simd::neon>());
#endif
  tables.push_back(&kernels::table<simd::generic>());
  return tables;
}

const KernelTable& find(std::string_view name, std::string_view asked_by) {
  for (const KernelTable* table : kernel_tables()) {
    if (table->name == name) return *table;
  }
  fail(Errc::invalid_argument, asked_by, ": expected an instruction set of this machine (", with_commas(kernel_tables(), &KernelTable::name), "), found ", printable(name));
}

std::atomic<const KernelTable*> in_use{nullptr};

}  // namespace

std::span<const KernelTable* const> kernel_tables() {
  static const std::vector<const KernelTable*> tables = available();
  return tables;
}

const KernelTable& kernels_in_use() {
  if (const KernelTable* table = in_use.load(std::memory_order_acquire)) return *table;
  const char* forced = std::getenv("BANTAM_ISA");
  const KernelTable& chosen = forced != nullptr && *forced != '\0' ? find(forced, "BANTAM_ISA") : *kernel_tables().front();
  in_use.store(&chosen, std::memory_order_release);
  return chosen;
}

void use_kernels(std::string_view name) { in_use.store(&find(name, "instruction set"), std::memory_order_release); }

}  // namespace bantam::inline v0
