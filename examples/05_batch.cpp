// Several texts at once, one pass over the weights for a token of each; then one text with guessed tokens.
#include <bantam/bantam.hpp>
#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: 05_batch MODEL\n";
    return 2;
  }
  const bantam::Model model = bantam::Model::load(argv[1]);

  // Threads and buffers, once for all sessions on it.
  const bantam::Engine engine(model, {.context = 256});
  bantam::Session base(engine);
  base.prefill("The old captain said:");
  std::vector<bantam::Session> sessions;
  std::vector<bantam::TextRange> replies;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) sessions.push_back(base.fork());
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    replies.push_back(sessions[seed - 1].stream("", {.max_tokens = 16, .sampling = {.seed = seed}}));
  std::vector<std::string> texts(replies.size());
  for (bool running = true; running;) {
    running = bantam::advance(replies) > 0;  // a token of each
    for (std::size_t i = 0; i < replies.size(); ++i) texts[i] += replies[i].piece();
  }
  for (const std::string& text : texts) std::cout << text << '\n';

  bantam::Session session(engine, {.context = 128});
  bantam::TextRange reply = session.stream("to be, or not to be, or not to be, or not",
                                           {.max_tokens = 32, .sampling = {.temperature = 0}, .speculation = {.lookup = 8}});
  std::cout << reply.text() << '\n';
  std::cerr << reply.stats().right_guesses << " of " << reply.stats().guessed_tokens << " guesses right\n";
  return 0;
} catch (const bantam::Error& error) {
  std::cerr << "05_batch: " << error.what() << '\n';
  return 1;
}
