// How fast blocks of files become panels: bytes a second that one core rearranges, of every element type.
//
// bench_rearranging [--rounds N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/core/random.hpp"
#include "bantam/model/source_type.hpp"
#include "bantam/quant/strip16.hpp"

int main(int argc, char** argv) {
  using namespace bantam;
  int rounds = 50;
  if (argc == 3 && std::string_view(argv[1]) == "--rounds") rounds = std::atoi(argv[2]);
  if (rounds < 1 || (argc != 1 && argc != 3)) {
    std::fprintf(stderr, "usage: bench_rearranging [--rounds N]: the best of N, 50 unless told\n");
    return 2;
  }
  constexpr std::int64_t columns = 2048, panels = 4;  // within a core's own cache
  std::printf("%-8s %-12s %8s\n", "type", "kept as", "GB/s");
  std::istringstream names(source_type_names());
  for (std::string name; std::getline(names >> std::ws, name, ',');) {
    const SourceType& type = *find_source_type(name);
    const std::int64_t row_bytes = type.row_bytes(columns), panel_bytes = type.format->panel_bytes(columns);
    std::vector<std::byte> bytes(static_cast<std::size_t>(panels * panel_rows * row_bytes));
    Random random(1);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next() & 0x3b);  // scales are numbers
    std::vector<std::byte> memory(static_cast<std::size_t>(panels * panel_bytes));
    double best = 0;
    for (int round = 0; round < rounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        type.fill_rows(memory.data() + panel * panel_bytes, 0, panel_rows, columns, bytes.data() + panel * panel_rows * row_bytes, row_bytes);
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      best = std::max(best, static_cast<double>(bytes.size()) / took.count() / 1e9);
    }
    std::printf("%-8s %-12s %8.2f\n", name.c_str(), std::string(type.format->name).c_str(), best);
  }
}
