// Options of texts as Python gives them: one way to read them, for sessions and schedulers.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "binding.hpp"

namespace bantam::python {

using Adapters = std::vector<std::pair<Adapter, float>>;
[[nodiscard]] std::vector<ScaledAdapter> as_library(const Adapters& adapters);

using Prompt = std::variant<std::string, std::vector<TokenId>>;

/// Reads keyword arguments by name; what nobody asked for is an error.
class Keywords {
 public:
  explicit Keywords(const py::kwargs& given) : given_(given) {}
  template <class T>
  void read(const char* name, T& value) {
    if (!given_.contains(name)) return;
    ++read_;
    value = given_[name].template cast<T>();
  }
  void finish(std::string_view function) const {
    if (read_ == given_.size()) return;
    throw py::type_error(message(function, "() got an unexpected keyword argument: ", static_cast<std::string>(py::repr(given_))));
  }

 private:
  const py::kwargs& given_;
  std::size_t read_ = 0;
};

void read_sampling(Keywords& k, Sampling& s);
/// `grammar` is bound to a model by whoever generates.
[[nodiscard]] GenerateOptions generate_options(Keywords& k, EncodeOptions& encode, std::shared_ptr<Grammar>& grammar);
/// The same where they are all that there is.
[[nodiscard]] GenerateOptions generate_options(const py::kwargs& kwargs, EncodeOptions& encode, std::shared_ptr<Grammar>& grammar);
/// What options are where nobody sets them.
[[nodiscard]] py::dict default_options();

/// The last grammar over the tokens of a model. What masks were found stays with it, and the tree of tokens. For one thread at a time.
class BoundGrammar {
 public:
  explicit BoundGrammar(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  const TokenGrammar& of(const std::shared_ptr<Grammar>& grammar) {
    if (last_ != grammar) {
      if (!trie_) trie_.emplace(tokenizer_);
      bound_.emplace(*grammar, *trie_);
      last_ = grammar;
    }
    return *bound_;
  }

 private:
  Tokenizer tokenizer_;
  std::optional<TokenTrie> trie_;
  std::shared_ptr<Grammar> last_;  ///< of `bound_`
  std::optional<TokenGrammar> bound_;
};

}  // namespace bantam::python
