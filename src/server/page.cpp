// The page at /: a chat, curves of /metrics, and what the server says of its model. Its files are part of the program.
#include <algorithm>

#include "server/models.hpp"

namespace bantam::server {

namespace {

constexpr unsigned char index_html[] = {
#include "server/page/index.html.inc"
};
constexpr unsigned char page_css[] = {
#include "server/page/page.css.inc"
};
constexpr unsigned char page_js[] = {
#include "server/page/page.js.inc"
};
constexpr unsigned char markdown_js[] = {
#include "server/page/markdown.js.inc"
};
constexpr unsigned char figures_js[] = {
#include "server/page/figures.js.inc"
};

struct File {
  std::string_view path, type;
  std::span<const unsigned char> bytes;
};

constexpr File files[] = {
    {"/", "text/html; charset=utf-8", index_html},
    {"/page/page.css", "text/css; charset=utf-8", page_css},
    {"/page/page.js", "text/javascript; charset=utf-8", page_js},
    {"/page/markdown.js", "text/javascript; charset=utf-8", markdown_js},
    {"/page/figures.js", "text/javascript; charset=utf-8", figures_js},
};

}  // namespace

void page(Models& models, const std::shared_ptr<Exchange>& exchange) {
  const std::string& path = exchange->request().path;
  const auto file = std::ranges::find(files, path, &File::path);
  if (!models.common().options.has_page || file == std::end(files)) throw ApiError(404, "not_found_error", message("there is no ", printable(path)));
  // Its own files alone, and no frame around it: whatever a model writes, no other code runs and nothing goes elsewhere.
  constexpr std::string_view policy =
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
  models.common().answer(*exchange, HttpReply{.body = std::string(file->bytes.begin(), file->bytes.end()),
                                  .type = std::string(file->type),
                                  .headers = {{"Content-Security-Policy", std::string(policy)}, {"Cache-Control", "no-cache"}, {"X-Content-Type-Options", "nosniff"}}});
}

}  // namespace bantam::server
