// Places of pages in a file, and reading them ahead of use.
#include "bantam/model/page_file.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "bantam/io/disk.hpp"
#include "bantam/io/scratch_file.hpp"
#include "reader_pool.hpp"

namespace bantam::inline v0 {

namespace {

/// Pages that lie together.
constexpr std::int64_t extent_pages = 16;
/// What goes through memory of our own at once, where pages lie in memory as they like.
constexpr std::int64_t most_bytes = std::int64_t{1} << 20;

static_assert(ScratchFile::block_bytes == static_cast<std::size_t>(nn::PageStore::block_bytes));

/// A part of pages that lie one behind the other in the file.
struct Run {
  std::int64_t number = 0;  ///< of the first
  std::int64_t count = 0;
};

/// Calls f(run, pages before it), for `most` pages at a time at most.
template <class F>
void for_each_run_of(std::span<const nn::PageStore::Page> pages, std::int64_t most, F&& f) {
  for (std::int64_t at = 0; at < std::ssize(pages);) {
    Run run{*pages[static_cast<std::size_t>(at)], 1};
    while (run.count < most && at + run.count < std::ssize(pages) && *pages[static_cast<std::size_t>(at + run.count)] == run.number + run.count && (run.number + run.count) % extent_pages != 0) ++run.count;
    f(run, at);
    at += run.count;
  }
}

}  // namespace

struct PageFile::Shared {
  Shared(const std::filesystem::path& folder, std::vector<nn::PagePart> of_pages) : file(folder, "keys and values"), parts(std::move(of_pages)) {
    for (const nn::PagePart& part : parts) {
      starts.push_back(extent_bytes);
      extent_bytes += extent_pages * step_of(part.bytes);
      page_bytes += part.bytes;
    }
  }

  ScratchFile file;
  const std::vector<nn::PagePart> parts;
  std::vector<std::int64_t> starts;  ///< of each part in an extent
  std::int64_t extent_bytes = 0, page_bytes = 0;
  const std::uint32_t process = detail::process_number();

  mutable std::mutex mutex;  ///< of what follows
  std::set<std::int64_t> free;  ///< below `end`
  std::int64_t end = 0;         ///< places that there are
  std::unique_ptr<ReaderPool> readers;  ///< from the first read on

  [[nodiscard]] bool is_forked() const noexcept { return process != detail::process_number(); }
  void check_process() const {
    if (is_forked()) fail(Errc::unsupported, "keys and values: expected the process that keeps them in a file, found a child of its fork()");
  }
  [[nodiscard]] std::uint64_t offset(std::size_t part, std::int64_t number) const noexcept {
    return static_cast<std::uint64_t>(number / extent_pages * extent_bytes + starts[part] + number % extent_pages * step_of(parts[part].bytes));
  }
  [[nodiscard]] ReaderPool& pool() {
    const std::lock_guard lock(mutex);
    if (readers == nullptr) readers = std::make_unique<ReaderPool>(DiskReading{}.readers, Reading::direct);
    return *readers;
  }
  void release(std::int64_t number) noexcept {
    if (is_forked()) return;  // nor may it wait for whoever had the mutex
    const std::lock_guard lock(mutex);
    try {
      free.insert(number);
    } catch (const std::bad_alloc&) {  // nobody will have this place
      return;
    }
    if (std::ssize(free) < end) return;
    free.clear();
    end = 0;
    file.clear();
  }
};

/// The pieces of a part of several pages.
class PageFile::PartRead final : public Read, private PieceSource {
 public:
  PartRead(std::shared_ptr<PageFile> owner, std::size_t part, std::span<const Page> pages, std::byte* to) : owner_(std::move(owner)) {
    const Shared& s = *owner_->shared_;
    const std::int64_t step = step_of(s.parts[part].bytes);
    for_each_run_of(pages, std::max<std::int64_t>(1, piece_bytes / step), [&](const Run& run, std::int64_t before) {
      const std::int64_t bytes = run.count * step;
      // A part of a page may be larger than a piece.
      for (std::int64_t done = 0; done < bytes; done += piece_bytes) {
        all_.push_back({s.offset(part, run.number) + static_cast<std::uint64_t>(done), before * step + done, std::min(piece_bytes, bytes - done)});
      }
      bytes_ += bytes;
    });
    batch_ = owner_->shared_->pool().read({&slot_, all_.empty() ? 0U : 1U}, to, ReaderPool::Haste::ahead);
  }
  ~PartRead() override {
    if (!owner_->is_forked()) owner_->shared_->pool().cancel(*batch_);
  }
  void wait() override {
    owner_->shared_->check_process();
    owner_->shared_->pool().wait(*batch_);
  }

 private:
  struct Piece {
    std::uint64_t offset = 0;  ///< in the file
    std::int64_t to = 0, bytes = 0;
  };
  [[nodiscard]] std::int64_t stored_bytes() const noexcept override { return bytes_; }
  [[nodiscard]] std::int64_t pieces() const noexcept override { return std::ssize(all_); }
  void load_piece(std::int64_t piece, std::byte* room, Reading /*reading*/) const override {
    const Piece& p = all_[static_cast<std::size_t>(piece)];
    owner_->shared_->file.read(p.offset, {room + p.to, static_cast<std::size_t>(p.bytes)});
  }

  std::shared_ptr<PageFile> owner_;
  std::vector<Piece> all_;
  std::int64_t bytes_ = 0;
  const SlotPart slot_{this, 0};
  std::shared_ptr<ReaderPool::Batch> batch_;
};

PageFile::PageFile(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}

std::shared_ptr<PageFile> PageFile::make(const std::filesystem::path& folder, std::vector<nn::PagePart> parts) {
  return std::shared_ptr<PageFile>(new PageFile(std::make_unique<Shared>(folder, std::move(parts))));
}

PageFile::~PageFile() {
  // Its threads are not there to be ended.
  if (shared_->is_forked()) (void)shared_->readers.release();
}

const std::vector<nn::PagePart>& PageFile::parts() const noexcept { return shared_->parts; }
bool PageFile::is_forked() const noexcept { return shared_->is_forked(); }

std::vector<nn::PageStore::Page> PageFile::put(std::span<const std::byte* const> pages) {
  Shared& s = *shared_;
  s.check_process();
  std::vector<Page> placed;
  placed.reserve(pages.size());
  for (std::size_t i = 0; i < pages.size(); ++i) {
    auto number = std::make_unique<std::int64_t>();
    {
      const std::lock_guard lock(s.mutex);
      *number = s.free.empty() ? s.end++ : s.free.extract(s.free.begin()).value();
    }
    // Its end gives the place back, as it does where making the handle throws.
    placed.emplace_back(number.release(), [owner = shared_from_this()](const std::int64_t* place) {
      owner->shared_->release(*place);
      delete place;
    });
  }
  const std::shared_ptr<std::byte> room = nn::allocate_blocks(most_bytes);
  for (std::size_t part = 0; part < s.parts.size(); ++part) {
    const nn::PagePart& of_page = s.parts[part];
    const std::int64_t begin = of_page.offset, bytes = of_page.bytes, step = step_of(bytes);
    // Several pages at once, or one that is larger piece by piece.
    for (std::int64_t done = 0; done < bytes; done += most_bytes) {
      const std::int64_t size = std::min(bytes - done, most_bytes);
      for_each_run_of(placed, step > most_bytes ? 1 : most_bytes / step, [&](const Run& run, std::int64_t before) {
        for (std::int64_t i = 0; i < run.count; ++i) std::memcpy(room.get() + i * step, pages[static_cast<std::size_t>(before + i)] + begin + done, static_cast<std::size_t>(size));
        s.file.write(s.offset(part, run.number) + static_cast<std::uint64_t>(done), {room.get(), static_cast<std::size_t>((run.count - 1) * step + step_of(size))});
      });
    }
  }
  return placed;
}

void PageFile::get(const Page& page, std::byte* to) {
  Shared& s = *shared_;
  s.check_process();
  const std::shared_ptr<std::byte> room = nn::allocate_blocks(most_bytes);
  for (std::size_t part = 0; part < s.parts.size(); ++part) {
    const auto [begin, bytes] = s.parts[part];
    for (std::int64_t done = 0; done < bytes; done += most_bytes) {
      const std::int64_t size = std::min(bytes - done, most_bytes);
      s.file.read(s.offset(part, *page) + static_cast<std::uint64_t>(done), {room.get(), static_cast<std::size_t>(step_of(size))});
      std::memcpy(to + begin + done, room.get(), static_cast<std::size_t>(size));
    }
  }
}

std::unique_ptr<nn::PageStore::Read> PageFile::read(std::size_t part, std::span<const Page> pages, std::byte* to) {
  shared_->check_process();
  return std::make_unique<PartRead>(shared_from_this(), part, pages, to);
}

nn::PageStore::Counts PageFile::counts() const {
  const Shared& s = *shared_;
  if (s.is_forked()) return {};
  const std::lock_guard lock(s.mutex);
  Counts counts{.stored_bytes = (s.end - std::ssize(s.free)) * s.page_bytes};
  if (s.readers == nullptr) return counts;
  const ReaderPool::Counts read = s.readers->counts();
  counts.read_bytes = read.bytes;
  counts.read_seconds = read.busy_seconds;
  counts.waited_seconds = read.waited_seconds;
  return counts;
}

}  // namespace bantam::inline v0
