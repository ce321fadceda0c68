// Loads a model and streams text from it.
#include <bantam/bantam.hpp>
#include <iostream>

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: 01_stream MODEL [PROMPT]\n";
    return 2;
  }
  // A Hugging Face folder, a .gguf file or a native .bantam file.
  const bantam::Model model = bantam::Model::load(argv[1]);
  bantam::Session session(model);

  bantam::TextRange reply = session.stream(
      argc == 3 ? argv[2] : "It was a dark night, and the",
      {.max_tokens = 64, .sampling = {.temperature = 0.8f, .min_p = 0.05f, .seed = 7}, .stop = {"\n\n"}});
  // Each step computes a token or more; leaving the loop stops the work.
  for (const std::string_view piece : reply) std::cout << piece << std::flush;
  std::cout << '\n';

  const bantam::SessionStats& stats = reply.stats();
  std::cerr << stats.prompt_tokens << " prompt tokens, " << stats.generated_tokens << " generated at "
            << stats.tokens_per_second << " tok/s, ended by " << bantam::to_string(reply.finish()) << '\n';
  return 0;
} catch (const bantam::Error& error) {
  std::cerr << "01_stream: " << error.what() << '\n';
  return 1;
}
