// Pages of keys and values, and of recurrent states, in a file.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "bantam/nn/page_store.hpp"

namespace bantam::inline v0 {

/// A store of pages in an unnamed file of a folder. Sixteen pages lie together, in them what a layer has of each side by side, so that what it has of a
/// long text are long reads; a few threads read pieces of a megabyte ahead of use. A process that was forked from the one that made it is refused: its parent
/// goes on writing.
class PageFile final : public nn::PageStore, public std::enable_shared_from_this<PageFile> {
 public:
  /// Of pages of these parts. Throws as ScratchFile does.
  [[nodiscard]] static std::shared_ptr<PageFile> make(const std::filesystem::path& folder, std::vector<nn::PagePart> parts);
  ~PageFile() override;

  [[nodiscard]] std::vector<Page> put(std::span<const std::byte* const> pages) override;
  void get(const Page& page, std::byte* to) override;
  [[nodiscard]] std::unique_ptr<Read> read(std::size_t part, std::span<const Page> pages, std::byte* to) override;
  [[nodiscard]] Counts counts() const override;

  [[nodiscard]] const std::vector<nn::PagePart>& parts() const noexcept;
  /// Whether this is a copy in a child of the process that made it.
  [[nodiscard]] bool is_forked() const noexcept;

 private:
  struct Shared;
  class PartRead;
  explicit PageFile(std::unique_ptr<Shared> shared);
  std::unique_ptr<Shared> shared_;
};

}  // namespace bantam::inline v0
