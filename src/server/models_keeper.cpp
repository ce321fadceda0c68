// The thread that loads and unloads.
#include <algorithm>
#include <limits>

#include "server/models.hpp"
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace bantam::server {

void Models::keep() {
  Lock lock(mutex_);
  while (!ending_) {
    refuse_late(lock);
    if (unload_one(lock) || load_one(lock)) continue;
    const Clock::time_point next = next_look();
    next == Clock::time_point::max() ? changed_.wait(lock) : static_cast<void>(changed_.wait_until(lock, next));
  }
}

/// Who waited too long, and for what nobody loads; those that went away are forgotten.
void Models::refuse_late(Lock& lock) {
  std::vector<std::pair<Waiting, std::optional<ApiError>>> refused;
  const auto now = Clock::now();
  for (Entry& entry : entries_) {
    const std::chrono::seconds most = entry.served.options.most_waiting;
    const bool comes = entry.now || entry.wants_load;
    for (auto one = entry.waiting.begin(); one != entry.waiting.end();) {
      std::optional<ApiError> error;
      const bool is_gone = *one->gone;
      if (most.count() > 0 && now >= one->since + most) {
        error.emplace(503, "overloaded_error", message("the model ", entry.served.options.name, " was not there in ", most.count(), " s: others are in use, or it takes long to load"));
        error->may_retry = true;
      } else if (!comes && !one->wanted.loads) {
        error = not_loaded(entry);
      }
      if (!error && !is_gone) {
        ++one;
        continue;
      }
      refused.emplace_back(std::move(*one), is_gone ? std::nullopt : error);
      one = entry.waiting.erase(one);
    }
  }
  if (refused.empty()) return;
  lock.unlock();
  for (const auto& one : refused) {
    if (one.second) common_.answer(*one.first.exchange, *one.second);
  }
  refused.clear();
  lock.lock();
}

/// One that is idle, and wanted no more. Whether there was one.
bool Models::unload_one(Lock& lock) {
  const auto now = Clock::now();
  for (Entry& entry : entries_) {
    for (const std::shared_ptr<Loaded>& loaded : entry.before) {
      if (loaded->uses > 0) continue;
      unload(entry, std::shared_ptr(loaded), lock);
      return true;
    }
    if (!entry.now || entry.now->uses > 0) continue;
    const bool is_idle = entry.waiting.empty() && now >= entry.now->idle_at();
    if (entry.now->takes() && !is_idle) continue;
    unload(entry, std::shared_ptr(entry.now), lock);
    return true;
  }
  return false;
}

void Models::unload(Entry& entry, std::shared_ptr<Loaded> loaded, Lock& lock) {
  // Behind its last step, and in one go with leaving the list: counters are whole and never fall.
  loaded->app->scheduler.save_kept(std::numeric_limits<std::size_t>::max(), [](std::span<const std::byte>) {});
  entry.metrics.add(loaded->app->scheduler.stats());
  const bool is_now = loaded == entry.now;
  if (is_now) {
    entry.now.reset();
    entry.wants_reload = false;
  } else {
    entry.before.remove(loaded);
  }
  ++entry.unloads;
  lock.unlock();
  // That of a model that was replaced is the new one's.
  if (is_now) save_kept(*loaded->app);
  loaded->app.reset();
#ifdef __GLIBC__
  // What it was in goes back to the system, so that others find it there.
  ::malloc_trim(0);
#endif
  note_(message("unloaded ", entry.served.options.name));
  lock.lock();
  ++unloads_;
}

/// What was wanted first, or room for it. Whether there is more to be done at once.
bool Models::load_one(Lock& lock) {
  const auto is_wanted = [](const Entry& entry) { return entry.wants_reload || (!entry.now && (entry.wants_load || !entry.waiting.empty())); };
  const auto since = [](const Entry& entry) { return entry.waiting.empty() ? Clock::time_point::min() : entry.waiting.front().since; };
  Entry* next = nullptr;
  for (Entry& entry : entries_) {
    if (is_wanted(entry) && (next == nullptr || since(entry) < since(*next))) next = &entry;
  }
  if (next == nullptr) {
    // Who wanted the room has it, or went.
    bool serves = false;
    for (Entry& entry : entries_) {
      if (!entry.now) continue;
      entry.now->yields = false;
      if (entry.now->takes()) serves = serve_waiting(entry, lock) || serves;
    }
    return serves;
  }
  if (next->found_no_room_at == unloads_) return make_room(*next);
  load(*next, lock);
  return true;
}

void Models::load(Entry& entry, Lock& lock) {
  const auto fail_with = [&](const std::string& line, int status) {
    entry.failure = line_without(line, entry.served.path);
    ++entry.failures;
    entry.wants_load = entry.wants_reload = false;
    std::list<Waiting> refused;
    // Those of a model that should have been replaced have the old one.
    if (!entry.now) refused.splice(refused.end(), entry.waiting);
    ApiError error(status, status == 503 ? "overloaded_error" : "server_error", message("the model ", entry.served.options.name, " could not be loaded: ", entry.failure));
    error.may_retry = status == 503;
    lock.unlock();
    note_(message(entry.served.options.name, " could not be loaded: ", line));
    for (const Waiting& one : refused) common_.answer(*one.exchange, error);
    refused.clear();
    lock.lock();
  };
  std::int64_t bytes = 0;
  for (const std::shared_ptr<Loaded>& loaded : all_loaded()) bytes += loaded->bytes;
  const auto others = std::ranges::count_if(entries_, [&](const Entry& other) { return other.now && &other != &entry; });
  if (const int most = common_.options.most_loaded; most > 0 && others >= most) {
    entry.found_no_room_at = unloads_;
    return;
  }
  entry.is_loading = true;
  std::shared_ptr<Loaded> loaded;
  std::string error;
  int status = 500;
  lock.unlock();
  try {
    loaded = try_load(entry, bytes);
  } catch (const std::bad_alloc&) {
    error = "out of memory";
    status = 503;
  } catch (const std::exception& e) {
    error = e.what();
    if (const auto* ours = dynamic_cast<const Error*>(&e); ours != nullptr && ours->code() == Errc::out_of_memory) status = 503;
  }
  lock.lock();
  entry.is_loading = false;
  if (!error.empty()) return ending_ ? void() : fail_with(error, status);
  if (!loaded) {
    entry.found_no_room_at = unloads_;
    return;
  }
  entry.found_no_room_at.reset();
  entry.wants_load = entry.wants_reload = false;
  entry.failure.clear();
  ++entry.loads;
  const bool replaces = entry.now != nullptr;
  const bool is_other = !entry.stamp.empty() && entry.stamp != loaded->stamp;
  entry.stamp = loaded->stamp;
  if (is_other && &entry == &entries_.front()) common_.front.probe().renew();
  if (replaces) {
    // Who wanted the old one unloaded meant the model.
    loaded->retires = entry.now->retires;
    entry.before.push_back(std::exchange(entry.now, nullptr));
  }
  entry.now = std::move(loaded);
  if (common_.draining) entry.now->app->scheduler.close();
  (void)serve_waiting(entry, lock);
  lock.unlock();
  note_(message(replaces ? "loaded anew: " : "loaded ", entry.served.options.name));
  lock.lock();
}

/// Whether anybody waited.
bool Models::serve_waiting(Entry& entry, Lock& lock) {
  if (entry.waiting.empty()) return false;
  std::list<Waiting> waiting = std::exchange(entry.waiting, {});
  std::vector<Ready> ready;
  for (Waiting& one : waiting) {
    if (!*one.gone) ready.push_back(make_ready(entry, std::move(one)));
  }
  lock.unlock();
  waiting.clear();
  for (Ready& one : ready) {
    try {
      one.serve(*one.app);
    } catch (const std::exception& error) {
      common_.answer(*one.exchange, to_api_error(error));
    }
  }
  ready.clear();
  lock.lock();
  return true;
}

/// Chooses who goes for a model. Whether it can at once.
bool Models::make_room(Entry& entry) {
  // The one that it replaces, rather than others.
  if (entry.wants_reload) {
    entry.wants_reload = false;
    entry.wants_load = true;
    entry.now->retires = true;
    return entry.now->uses == 0;
  }
  // One at a time, and that one to its end.
  Entry* oldest = nullptr;
  for (Entry& other : entries_) {
    if (!other.before.empty()) return false;
    if (!other.now) continue;
    if (!other.now->takes()) return other.now->uses == 0;
    const auto order = [](const Entry& e) { return std::pair(e.now->uses > 0, e.now->used); };
    if (oldest == nullptr || order(other) < order(*oldest)) oldest = &other;
  }
  if (oldest == nullptr) {
    entry.found_no_room_at.reset();
    return true;
  }
  oldest->now->yields = true;
  return oldest->now->uses == 0;
}

Models::Clock::time_point Models::next_look() const {
  auto next = Clock::time_point::max();
  for (const Entry& entry : entries_) {
    const std::chrono::seconds most = entry.served.options.most_waiting;
    // Those behind came later.
    if (!entry.waiting.empty() && most.count() > 0) next = std::min(next, entry.waiting.front().since + most);
    if (entry.now && entry.now->uses == 0) next = std::min(next, entry.now->idle_at());
  }
  return next;
}

}  // namespace bantam::server
