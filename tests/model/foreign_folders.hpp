// Folders that tests/reference/foreign_checkpoints.py writes, once a program.
#pragma once

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "support.hpp"

namespace bantam::test {

struct ForeignFolder {
  std::string name;
  std::filesystem::path path;
  std::filesystem::path plain;  ///< the same values in f32
  nlohmann::json formats;       ///< name of a tensor -> the format that must hold it
};

/// All of them; none, saying so, without Python and numpy.
inline const std::vector<ForeignFolder>& foreign_folders() {
  static const TemporaryFolder folder;
  static const std::vector<ForeignFolder> folders = [] {
    std::vector<ForeignFolder> list;
    const std::string command = "/usr/bin/python3 -B '" BANTAM_SOURCE_DIR "/tests/reference/foreign_checkpoints.py' '" + folder.path().string() + "'";
    if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) {
      MESSAGE("skipped: no python3 with numpy");
      return list;
    }
    REQUIRE(std::system(command.c_str()) == 0);
    for (const auto& entry : nlohmann::json::parse(read_file(folder / "cases.json"))) {
      const auto name = entry["name"].get<std::string>();
      list.push_back({name, folder / name, folder / (name + ".plain"), entry["formats"]});
    }
    return list;
  }();
  return folders;
}

}  // namespace bantam::test
