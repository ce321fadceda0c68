// One prompt read once and continued twice; then a session that is saved, restored, and goes on as if never interrupted.
#include <bantam/bantam.hpp>
#include <iostream>

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: 04_sessions MODEL [STATE]\n";
    return 2;
  }
  const std::filesystem::path state = argc == 3 ? argv[2] : "04_sessions.state";
  const bantam::Model model = bantam::Model::load(argv[1]);

  bantam::Session base(model, {.context = 256, .threads = 2, .kv = "q8"});
  base.prefill("The old captain looked at the sea, and said:");  // paid for once

  // Forks share the weights, and the keys and values of what was read.
  bantam::Session bold = base.fork();
  bantam::Session calm = base.fork();
  std::cout << "bold: " << bold.stream("", {.max_tokens = 24, .sampling = {.temperature = 1.2f, .seed = 1}}).text()
            << '\n';

  const bantam::GenerateOptions options{.max_tokens = 24,
                                        .sampling = {.temperature = 0.7f, .repeat_penalty = 1.1f, .seed = 2}};
  std::cout << "calm: ";
  int pieces = 0;
  for (const std::string_view piece : calm.stream("", options)) {
    std::cout << piece << std::flush;
    if (++pieces == 12) break;  // cancels; the session stays usable
  }
  std::cout << '\n';

  calm.save(state);
  bantam::Session restored = bantam::Session::restore(model, state, {.context = 256, .threads = 1});
  const std::string here = calm.resume(options).text();
  const std::string there = restored.resume(options).text();
  std::cout << "went on with: " << here << "\nrestored:     " << there << '\n';
  return here == there ? 0 : 1;
} catch (const bantam::Error& error) {
  std::cerr << "04_sessions: " << error.what() << '\n';
  return 1;
}
