// The models of a server: loaded when they are wanted, unloaded when others need their memory.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "server/app.hpp"

namespace bantam::server {

/// What lists say of a model beside what it is.
struct ModelState {
  std::string name;
  std::string_view status;      ///< "unloaded", "loading", "loaded" or "failed"
  std::string failure;          ///< of the last attempt to load it; one line
  std::shared_ptr<App> app;     ///< null unless it is loaded
  std::size_t waiting = 0;      ///< requests
  std::int64_t bytes = 0;       ///< that it may come to take
  std::uint64_t loads = 0, failures = 0, unloads = 0;
};

/// Who wants a model, and what for.
struct ModelWanted {
  std::string name;              ///< empty or "default": the first
  bool loads = true;             ///< it, if it is not there
  bool is_use = true;            ///< else nobody is busy with it: looking at a model keeps it from nothing
  std::optional<std::chrono::seconds> keep_alive = {};  ///< from now on, in the place of ServerOptions::keep_alive
};

/// One thread loads and unloads; whoever wants a model hands over what is to be done with it. A model is unloaded only when no exchange holds it.
/// Where there is no room for one that is wanted, the one that was used longest ago goes: at once if it is idle, else it takes nothing more until it
/// is. Safe from any thread.
class Models : public std::enable_shared_from_this<Models> {
 public:
  using Note = std::function<void(std::string_view)>;
  using Serve = std::function<void(App&)>;

  Models(Common& common, std::vector<ServedModel> all, Note note);
  ~Models();
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  /// Begins. Without a choice of models the first is loaded before this returns; throws what loading it does.
  void start();
  /// Calls `serve` with the model when that is there, which `exchange` holds from then on: at once, or on the thread that loads; it must hand on what
  /// takes long. Where it comes to nothing later, the exchange is answered. Throws ApiError: 404 for a model that there is not, 400 for one
  /// that is not loaded and shall not be, 429 where too many wait, 503 at the end.
  void use(const ModelWanted& wanted, const std::shared_ptr<Exchange>& exchange, Serve serve);

  /// Ask for it and do not wait. Throw ApiError as use() does.
  void load(std::string_view name);
  void unload(std::string_view name);
  /// Of all models, or one, those that are loaded and whose files changed: their names. New requests go to the new one when that is there, old ones end
  /// on the old one; where there is no room for both, new ones wait until the old one is done.
  std::vector<std::string> reload(std::string_view name = {});

  /// In the order of the command line.
  [[nodiscard]] std::vector<ModelState> states();
  /// One of them. Throws ApiError (404).
  [[nodiscard]] ModelState state(std::string_view name);
  /// What ServedModel::plan says of one of them. Throws ApiError (404), and what that throws.
  [[nodiscard]] Json plan(std::string_view name);
  /// Figures of all models, or of one, as there is one alone.
  void write_metrics(Exposition& out, std::string_view name = {});
  /// Those that texts are generated for or that wait for a model.
  [[nodiscard]] std::size_t requests();
  [[nodiscard]] Common& common() noexcept { return common_; }

  /// Takes no more requests; those that wait for a model are refused.
  void close();
  /// Ends all texts.
  void cancel_all();
  /// Unloads everything, whoever holds it. `saves`: what is kept goes to cache files.
  void end(bool saves);

 private:
  using Clock = std::chrono::steady_clock;

  /// A model in memory.
  struct Loaded {
    std::unique_ptr<App> app;
    std::int64_t bytes = 0;
    std::string stamp;        ///< of its file
    int uses = 0;             ///< exchanges that hold it
    Clock::time_point used = Clock::now();
    std::chrono::seconds keep_alive{-1};
    bool retires = false;     ///< goes when it is idle, and takes nothing until then
    bool yields = false;      ///< the same, for as long as others want its room

    [[nodiscard]] bool takes() const noexcept { return !retires && !yields; }
    /// When it will have been idle for too long.
    [[nodiscard]] Clock::time_point idle_at() const noexcept { return keep_alive.count() < 0 ? Clock::time_point::max() : used + keep_alive; }
  };
  struct Waiting {
    std::shared_ptr<Exchange> exchange;
    Serve serve;
    ModelWanted wanted;
    std::shared_ptr<const std::atomic<bool>> gone;
    Clock::time_point since = Clock::now();
  };
  /// One whose exchange holds the model.
  struct Ready {
    std::shared_ptr<Exchange> exchange;
    Serve serve;
    App* app;
  };
  struct Entry {
    explicit Entry(ServedModel s) : served(std::move(s)) {}

    ServedModel served;
    std::shared_ptr<Loaded> now;
    std::list<std::shared_ptr<Loaded>> before;  ///< that were replaced, and still answer
    std::list<Waiting> waiting;
    bool is_loading = false, wants_load = false, wants_reload = false;
    std::optional<std::uint64_t> found_no_room_at = {};  ///< an attempt is made again when something went
    std::string failure;
    std::string stamp = {};  ///< of the file as it was loaded last
    std::uint64_t loads = 0, failures = 0, unloads = 0;
    Metrics metrics;
  };
  using Lock = std::unique_lock<std::mutex>;
  struct Lease;

  // No function hands over, answers or lets go of an exchange with the mutex: its end gives the model back, which wants it.
  [[nodiscard]] Entry& find(std::string_view name);
  [[nodiscard]] static ApiError not_loaded(const Entry& entry);
  [[nodiscard]] ModelState state_of(const Entry& entry);
  [[nodiscard]] std::shared_ptr<App> lease(const std::shared_ptr<Loaded>& loaded, bool is_use);
  void release(Loaded& loaded, bool is_use);
  [[nodiscard]] Ready make_ready(Entry& entry, Waiting waiting);

  void keep();
  void refuse_late(Lock& lock);
  bool unload_one(Lock& lock);
  bool load_one(Lock& lock);
  void load(Entry& entry, Lock& lock);
  bool serve_waiting(Entry& entry, Lock& lock);
  void unload(Entry& entry, std::shared_ptr<Loaded> loaded, Lock& lock);
  void save_kept(App& app);
  bool make_room(Entry& entry);
  [[nodiscard]] std::shared_ptr<Loaded> try_load(Entry& entry, std::int64_t others);
  [[nodiscard]] std::vector<std::shared_ptr<Loaded>> all_loaded() const;
  [[nodiscard]] Clock::time_point next_look() const;

  Common& common_;
  const Note note_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> entries_;
  std::uint64_t unloads_ = 0;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace bantam::server
