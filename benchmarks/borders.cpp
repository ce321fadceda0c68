// Streaming text through C++ or through the C interface: tokens a second. benchmarks/borders.py compares them, and Python.
#include <bantam.h>

#include <bantam/bantam.hpp>
#include <iostream>

#include "bantam/core/stopwatch.hpp"

namespace {

constexpr std::int64_t tokens = 256;

double by_cpp(const char* path) {
  const bantam::Model model = bantam::Model::load(path);
  bantam::Session session(model, {.threads = 1});
  std::size_t bytes = 0;
  const bantam::Stopwatch watch;
  for (const std::string_view piece : session.stream("Once", {.max_tokens = tokens, .sampling = {.temperature = 0}, .ignore_end = true})) {
    bytes += piece.size();
  }
  return bytes == 0 ? 0 : static_cast<double>(tokens) / watch.seconds();
}

double by_c(const char* path) {
  bantam_model* model = nullptr;
  bantam_session* session = nullptr;
  bantam_generation* generation = nullptr;
  bantam_session_options options = BANTAM_SESSION_OPTIONS_INIT;
  bantam_generate_options generate = BANTAM_GENERATE_OPTIONS_INIT;
  options.threads = 1;
  generate.max_tokens = tokens;
  generate.temperature = 0;
  generate.ignore_end = 1;
  bantam_status status = bantam_model_load(&model, path);
  if (status == 0) status = bantam_session_new(&session, model, &options);
  const bantam::Stopwatch watch;
  if (status == 0) status = bantam_generation_new(&generation, session, "Once", 4, &generate);
  const char* text = "";
  std::size_t bytes = 0, piece = 0;
  while (status == 0 && text != nullptr) {
    status = bantam_generation_next(generation, &text, &piece);
    bytes += piece;
  }
  const double seconds = watch.seconds();
  if (status != 0) std::cerr << bantam_last_error() << '\n';
  bantam_generation_free(generation);
  bantam_session_free(session);
  bantam_model_free(model);
  return bytes == 0 ? 0 : static_cast<double>(tokens) / seconds;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: bench_borders cpp|c MODEL\n";
    return 2;
  }
  // The best of several: what a border costs is not what else the machine does.
  double best = 0;
  for (int i = 0; i < 5; ++i) best = std::max(best, argv[1] == std::string_view("c") ? by_c(argv[2]) : by_cpp(argv[2]));
  std::cout << best << '\n';
  return best > 0 ? 0 : 1;
} catch (const bantam::Error& error) {
  std::cerr << "bench_borders: " << error.what() << '\n';
  return 1;
}
