// Reports and models as HTML: for notebooks, and as pages that need nothing else.
#pragma once

#include <string>
#include <string_view>

namespace bantam::inline v0 {

class Model;
struct Report;

/// What a compression did: sizes, charts of errors and sizes, a table of all matrices. A piece of HTML with its own style, in light
/// and dark, without scripts; names from files are escaped.
[[nodiscard]] std::string to_html(const Report& report);
/// What a model is, and a chart of where its bytes are, by kind of matrix and format.
[[nodiscard]] std::string to_html(const Model& model);
/// A page of such pieces that opens anywhere, without a network: it may load nothing and run nothing.
[[nodiscard]] std::string html_page(std::string_view title, std::string_view body);

}  // namespace bantam::inline v0
