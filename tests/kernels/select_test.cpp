// Which kernel table is used.
#include <array>
#include <cstdio>
#include <filesystem>
#include <set>

#include "bantam/core/cpu.hpp"
#include "bantam/kernels/of_format.hpp"
#include "bantam/quant/format_info.hpp"
#include "support.hpp"

using bantam::kernel_tables;
using bantam::KernelTable;
using bantam::test::error_of;

TEST_CASE("there is a table for all that this machine can do, best first, generic last") {
  const bantam::CpuFeatures& cpu = bantam::cpu_features();
  std::set<std::string> names;
  for (const KernelTable* table : kernel_tables()) CHECK(names.insert(table->name).second);
  CHECK(names.contains("avx2") == cpu.avx2);
#if !defined(BANTAM_CHECKED)  // sanitized builds leave out what the other tables hold the parts of (cmake/BantamIsa.cmake)
  CHECK(names.contains("avx2vnni") == cpu.avx2_vnni);
  CHECK(names.contains("avx512") == cpu.avx512);
#endif
  CHECK(names.contains("avx512vnni") == cpu.avx512_vnni);
  CHECK(names.contains("amx") == cpu.amx_int8);
  CHECK(names.contains("neon") == cpu.neon);
  CHECK(names.contains("dotprod") == cpu.neon_dotprod);
  CHECK(std::string(kernel_tables().back()->name) == "generic");
}

TEST_CASE("every table has every kernel") {
  for (const KernelTable* table : kernel_tables()) {
    CAPTURE(std::string(table->name));
    for (const bantam::FormatInfo& info : bantam::formats()) {
      const bantam::FormatKernels& kernels = bantam::kernels_of(info, *table);
      CHECK((kernels.matmul_q8 == nullptr) == info.is_float);
      CHECK((kernels.matmul_f32 != nullptr));
    }
    const char* kinds[] = {"f32", "f16", "q8", "q4", "q3"};
    for (std::size_t i = 0; i < std::size(kinds); ++i) CHECK(std::string(table->kv[i].name) == kinds[i]);
  }
}

TEST_CASE("a table is chosen by name, a wrong name is refused with the list") {
  const std::string before = bantam::kernels_in_use().name;
  std::string names;
  for (const KernelTable* table : kernel_tables()) {
    bantam::use_kernels(table->name);
    CHECK(&bantam::kernels_in_use() == table);
    names += (names.empty() ? "" : ", ") + std::string(table->name);
  }
  CHECK(error_of([] { bantam::use_kernels("sse9\n"); }) ==
        "instruction set: expected an instruction set of this machine (" + names + "), found sse9\\x0a");
  bantam::use_kernels(before);
}

// Run by the next test in a process of its own, for the environment is read once.
TEST_CASE("prints the table in use" * doctest::skip()) {
  try {
    std::printf("in use: %s.\n", bantam::kernels_in_use().name);
  } catch (const bantam::Error& error) {
    std::printf("in use: %s.\n", error.what());
  }
}

TEST_CASE("BANTAM_ISA chooses the table") {
  std::error_code none;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", none).string();
  const auto run_with = [&](const std::string& value) {
    const std::string command = "BANTAM_ISA='" + value + "' '" + self + "' --no-skip --test-case='prints the table in use' 2>&1";
    std::string output;
    if (FILE* pipe = popen(command.c_str(), "r")) {
      std::array<char, 4096> buffer;
      while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
      pclose(pipe);
    }
    const auto from = output.find("in use: ");
    if (from == std::string::npos) return std::string();
    return output.substr(from + 8, output.find(".\n", from) - from - 8);
  };
  if (run_with("generic").empty()) {
    MESSAGE("skipped: this program cannot start itself here (under emulation, perhaps)");
    return;
  }
  for (const KernelTable* table : kernel_tables()) CHECK(run_with(table->name) == table->name);
  CHECK(run_with("") == kernel_tables().front()->name);
  CHECK(run_with("mmx").starts_with("BANTAM_ISA: expected an instruction set of this machine ("));
  CHECK(run_with("mmx").ends_with("generic), found mmx"));
}
