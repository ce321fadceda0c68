// What is asked of models, from any thread.
#include "server/models.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "server/cache_file.hpp"

namespace bantam::server {

namespace {

/// Changes when somebody writes a model's file, or puts another in its place; of a folder, any file in it.
std::string stamp_of(const std::filesystem::path& path) {
  // A model's folder has far fewer.
  constexpr std::size_t most_files = 10'000;
  std::set<std::string> parts;
  const auto add = [&](const std::filesystem::path& file) {
    struct stat info {};
    if (::stat(file.c_str(), &info) == 0)
      parts.insert(message(file.filename().string(), ' ', info.st_ino, ' ', info.st_size, ' ', info.st_mtim.tv_sec, '.', info.st_mtim.tv_nsec));
  };
  std::error_code not_there;
  if (!std::filesystem::is_directory(path, not_there)) add(path);
  for (std::filesystem::directory_iterator file(path, not_there), end; file != end && parts.size() < most_files; file.increment(not_there)) add(file->path());
  std::string stamp;
  for (const std::string& part : parts) stamp += part + '\n';
  return stamp;
}

ApiError shutting_down() { return {503, "unavailable_error", "the server is shutting down"}; }

}  // namespace

/// What an exchange holds of a model.
struct Models::Lease {
  ~Lease() {
    if (models != nullptr) models->release(*loaded, is_use);
  }
  std::shared_ptr<Models> models = {};
  std::shared_ptr<Loaded> loaded = {};
  bool is_use = false;
};

Models::Models(Common& common, std::vector<ServedModel> all, Note note) : common_(common), note_(std::move(note)) {
  for (ServedModel& one : all) entries_.emplace_back(std::move(one));
}
Models::~Models() { end(false); }

void Models::start() {
  if (!common_.options.has_choice) {
    Entry& only = entries_.front();
    only.now = try_load(only, 0);
    only.stamp = only.now->stamp;
    ++only.loads;
  }
  thread_ = std::thread([this] { keep(); });
}

Models::Entry& Models::find(std::string_view name) {
  if (name.empty() || name == "default") return entries_.front();
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.served.options.is_called(name); });
  if (found != entries_.end()) return *found;
  constexpr std::size_t most_named = 8;
  std::string names;
  std::size_t count = 0;
  for (const Entry& entry : entries_) {
    if (++count <= most_named) names += message(count == 1 ? "" : ", ", entry.served.options.name);
  }
  if (count > most_named) names += message(" or one of ", count - most_named, " more");
  throw ApiError(404, "invalid_request_error", message("the model ", printable(name), " does not exist: expected ", names), "model", "model_not_found");
}

std::shared_ptr<App> Models::lease(const std::shared_ptr<Loaded>& loaded, bool is_use) {
  const auto lease = std::make_shared<Lease>();
  lease->models = shared_from_this();
  lease->loaded = loaded;
  lease->is_use = is_use;
  ++loaded->uses;
  if (is_use) loaded->used = Clock::now();
  return {lease, loaded->app.get()};
}

void Models::release(Loaded& loaded, bool is_use) {
  const Lock lock(mutex_);
  if (is_use) loaded.used = Clock::now();
  if (--loaded.uses == 0) changed_.notify_all();
}

Models::Ready Models::make_ready(Entry& entry, Waiting waiting) {
  if (waiting.wanted.keep_alive) entry.now->keep_alive = *waiting.wanted.keep_alive;
  waiting.exchange->hold(lease(entry.now, waiting.wanted.is_use));
  return {std::move(waiting.exchange), std::move(waiting.serve), entry.now->app.get()};
}

void Models::use(const ModelWanted& wanted, const std::shared_ptr<Exchange>& exchange, Serve serve) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  Waiting waiting{.exchange = exchange, .serve = std::move(serve), .wanted = wanted, .gone = gone};
  waiting.wanted.loads = wanted.loads && common_.options.loads_on_demand;
  std::optional<Ready> ready;
  const auto is_ready = [&] {
    Entry& entry = find(wanted.name);
    if (entry.now && entry.now->takes()) ready = make_ready(entry, std::move(waiting));
    return ready.has_value();
  };
  Lock lock(mutex_);
  const bool is_there = is_ready();
  lock.unlock();
  if (is_there) return ready->serve(*ready->app);
  // Before anybody can answer: what an answer does when its client goes takes the place of this.
  exchange->on_gone([gone, models = weak_from_this()] {
    const std::shared_ptr<Models> self = models.lock();
    if (!self) return;
    const Lock locked(self->mutex_);
    *gone = true;
    self->changed_.notify_all();
  });
  lock.lock();
  if (is_ready()) {
    lock.unlock();
    return ready->serve(*ready->app);
  }
  Entry& entry = find(wanted.name);
  if (common_.draining) throw shutting_down();
  if (!waiting.wanted.loads && !entry.now && !entry.is_loading && !entry.wants_load) throw not_loaded(entry);
  const SchedulerOptions& places = entry.served.options.scheduler;
  if (std::ssize(entry.waiting) >= places.parallel + (places.queue < 0 ? 4 * places.parallel : places.queue))
    throw ApiError(429, "rate_limit_error", message("too many requests are waiting for ", entry.served.options.name), {}, "rate_limit_exceeded");
  entry.waiting.push_back(std::move(waiting));
  changed_.notify_all();
}

ApiError Models::not_loaded(const Entry& entry) {
  return {400, "invalid_request_error", message("the model ", entry.served.options.name, " is not loaded, and is not loaded on demand"), "model", "model_not_loaded"};
}

void Models::load(std::string_view name) {
  const Lock lock(mutex_);
  Entry& entry = find(name);
  if (common_.draining) throw shutting_down();
  if (entry.now && entry.now->takes()) return;
  entry.wants_load = true;
  changed_.notify_all();
}

void Models::unload(std::string_view name) {
  const Lock lock(mutex_);
  Entry& entry = find(name);
  if (!entry.now) throw ApiError(400, "invalid_request_error", message("the model ", entry.served.options.name, " is not loaded"), "model", "model_not_loaded");
  entry.wants_load = entry.wants_reload = false;
  entry.now->retires = true;
  changed_.notify_all();
}

std::vector<std::string> Models::reload(std::string_view name) {
  struct Known {
    Entry* entry;
    std::string stamp;
    bool changed = false;
  };
  std::vector<Known> known;
  {
    const Lock lock(mutex_);
    const Entry* only = name.empty() ? nullptr : &find(name);
    for (Entry& entry : entries_) {
      if (entry.now && (only == nullptr || only == &entry)) known.push_back({&entry, entry.now->stamp});
    }
  }
  for (Known& one : known) one.changed = stamp_of(one.entry->served.path) != one.stamp;
  std::vector<std::string> names;
  const Lock lock(mutex_);
  for (const Known& one : known) {
    if (!one.changed || !one.entry->now) continue;
    one.entry->wants_reload = true;
    one.entry->found_no_room_at.reset();
    names.push_back(one.entry->served.options.name);
  }
  changed_.notify_all();
  return names;
}

ModelState Models::state_of(const Entry& entry) {
  const bool is_wanted = entry.is_loading || entry.wants_load || !entry.waiting.empty();
  ModelState state{.name = entry.served.options.name,
                   .status = entry.now ? "loaded" : is_wanted ? "loading" : entry.failure.empty() ? "unloaded" : "failed",
                   .failure = entry.failure,
                   .app = entry.now ? lease(entry.now, false) : nullptr,
                   .waiting = entry.waiting.size(),
                   .bytes = entry.now ? entry.now->bytes : 0,
                   .loads = entry.loads,
                   .failures = entry.failures,
                   .unloads = entry.unloads};
  return state;
}

std::vector<ModelState> Models::states() {
  std::vector<ModelState> all;
  all.reserve(entries_.size());
  const Lock lock(mutex_);
  for (const Entry& entry : entries_) all.push_back(state_of(entry));
  return all;
}

ModelState Models::state(std::string_view name) {
  const Lock lock(mutex_);
  return state_of(find(name));
}

Json Models::plan(std::string_view name) {
  std::function<Json()> made;
  {
    const Lock lock(mutex_);
    made = find(name).served.plan;
  }
  if (!made) throw ApiError(501, "not_supported_error", "nobody can say how this model will run");
  return made();
}

void Models::write_metrics(Exposition& out, std::string_view name) {
  const bool has_labels = common_.options.has_choice && name.empty();
  for (Entry& entry : entries_) {
    if (!name.empty() && &entry != &find(name)) continue;
    ModelState state;
    {
      const Lock lock(mutex_);
      state = state_of(entry);
    }
    entry.metrics.write(out, state.app ? state.app->scheduler.stats() : SchedulerStats{}, state.name, has_labels);
    if (!common_.options.has_choice) return;
    const std::string label = message("model_name=", Json::quoted(state.name));
    out.gauge("bantam:model_loaded", "Whether the model is in memory.", state.app ? 1 : 0, label);
    out.gauge("bantam:model_bytes", "That the model and its texts may come to take.", static_cast<double>(state.bytes), label);
    out.gauge("bantam:model_requests_waiting", "Requests that wait until the model is loaded.", static_cast<double>(state.waiting), label);
    out.counter("bantam:model_loads_total", "Times that the model was loaded.", static_cast<double>(state.loads), label);
    out.counter("bantam:model_load_failures_total", "Times that loading it failed.", static_cast<double>(state.failures), label);
    out.counter("bantam:model_unloads_total", "Times that it was unloaded.", static_cast<double>(state.unloads), label);
  }
}

std::size_t Models::requests() {
  const Lock lock(mutex_);
  std::size_t count = 0;
  for (const std::shared_ptr<Loaded>& loaded : all_loaded()) count += static_cast<std::size_t>(loaded->app->scheduler.stats().requests);
  for (const Entry& entry : entries_) count += entry.waiting.size();
  return count;
}

std::vector<std::shared_ptr<Models::Loaded>> Models::all_loaded() const {
  std::vector<std::shared_ptr<Loaded>> all;
  for (const Entry& entry : entries_) {
    if (entry.now) all.push_back(entry.now);
    all.insert(all.end(), entry.before.begin(), entry.before.end());
  }
  return all;
}

void Models::close() {
  std::list<Waiting> refused;
  {
    const Lock lock(mutex_);
    for (Entry& entry : entries_) {
      refused.splice(refused.end(), entry.waiting);
      entry.wants_load = entry.wants_reload = false;
    }
    for (const std::shared_ptr<Loaded>& loaded : all_loaded()) loaded->app->scheduler.close();
  }
  for (const Waiting& one : refused) common_.answer(*one.exchange, shutting_down());
}

void Models::cancel_all() {
  const Lock lock(mutex_);
  for (const std::shared_ptr<Loaded>& loaded : all_loaded()) loaded->app->scheduler.cancel_all();
}

void Models::end(bool saves) {
  {
    const Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  for (Entry& entry : entries_) {
    if (saves && entry.now) save_kept(*entry.now->app);
    entry.waiting.clear();
    for (const std::shared_ptr<Loaded>& loaded : entry.before) loaded->app.reset();
    if (entry.now) entry.now->app.reset();
    entry.before.clear();
    entry.now.reset();
  }
}

void Models::save_kept(App& app) {
  try {
    CacheFile(app).save(note_);
  } catch (const std::exception& error) {
    note_(message("the cache file was not written: ", error.what()));
  }
}

// ---------------------------------------------------------------- where no thread of a request is held up

std::shared_ptr<Models::Loaded> Models::try_load(Entry& entry, std::int64_t others) {
  const auto loaded = std::make_shared<Loaded>();
  loaded->stamp = stamp_of(entry.served.path);
  loaded->keep_alive = common_.options.keep_alive;
  std::optional<LoadedModel> found = entry.served.load(others, [this] { return !ending_; });
  if (!found) return nullptr;
  ModelOptions options = entry.served.options;
  options.scheduler.context = found->context;
  options.scheduler.adapters = std::move(found->adapters);
  options.scheduler.memory = std::move(found->memory);
  options.scheduler.draft = std::move(found->draft);
  loaded->bytes = found->bytes;
  loaded->app = std::make_unique<App>(std::move(options), common_, entry.metrics, found->model);
  const auto note = [&](std::string_view line) { note_(common_.options.has_choice ? message(entry.served.options.name, ": ", line) : std::string(line)); };
  CacheFile(*loaded->app).restore(note);
  if (!loaded->app->has_own_template) note("the model has no chat template: chats are written as ChatML");
  return loaded;
}

}  // namespace bantam::server
