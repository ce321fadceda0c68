// Calls: one message in, one or several out, and a status.
#include "server/grpc/door.hpp"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "bantam/core/error.hpp"
#include "server/grpc/messages.hpp"

namespace bantam::server {

namespace {

using Clock = std::chrono::steady_clock;

/// As gRPC's own table of statuses of HTTP has it, but for what it counts as UNKNOWN.
grpc::StatusCode code_of(int status) {
  switch (status) {
    case 401: return grpc::StatusCode::UNAUTHENTICATED;
    case 403: return grpc::StatusCode::PERMISSION_DENIED;
    case 404: return grpc::StatusCode::NOT_FOUND;
    case 429: return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case 501: return grpc::StatusCode::UNIMPLEMENTED;
    case 503: return grpc::StatusCode::UNAVAILABLE;
    default: return status < 500 ? grpc::StatusCode::INVALID_ARGUMENT : grpc::StatusCode::INTERNAL;
  }
}

/// From {"error": {"message", "code"}}.
grpc::Status status_of(int status, const Json& answer) {
  const Json* error = answer.find("error");
  const Json* said = error == nullptr ? nullptr : error->find("message");
  return {code_of(status), said != nullptr && said->is_string() ? said->get<std::string>() : message("status ", status)};
}

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

/// "ipv4:127.0.0.1:50000", "ipv6:%5B::1%5D:50000": the address alone.
std::string peer_of(std::string_view uri) {
  const std::size_t kind = uri.find(':');
  if (!uri.starts_with("ipv")) return std::string(uri.substr(0, kind));
  std::string_view rest = uri.substr(kind + 1);
  rest = rest.substr(0, rest.rfind(':'));
  for (const std::string_view open : {"%5B", "[", "%5b"}) {
    if (rest.starts_with(open) && rest.size() > 2 * open.size()) rest = rest.substr(open.size(), rest.size() - 2 * open.size());
  }
  return std::string(rest);
}

std::string text_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

grpc::ByteBuffer buffer_of(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

/// Files that the HTTP server read before.
std::string file_text(const std::string& path) {
  std::string text;
  FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) fail(Errc::io, printable(path, 4096), ": expected a file that can be read");
  char part[4096];
  for (std::size_t count = 0; (count = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, count);
  std::fclose(file);
  return text;
}

}  // namespace

class Call;

struct Calls final : grpc::CallbackGenericService {
  Calls(const HttpLimits& l, GrpcThread t) : limits(l), thread(std::move(t)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;
  [[nodiscard]] std::vector<std::shared_ptr<Call>> all() const {
    const std::lock_guard lock(mutex);
    return {calls.begin(), calls.end()};
  }

  const HttpLimits limits;
  const GrpcThread thread;
  HttpCheck check;
  HttpHandler handler;
  std::atomic<bool> listens{false};
  std::atomic<bool> closes{false};  ///< takes no more calls; those at hand go on
  mutable std::mutex mutex;
  std::set<std::shared_ptr<Call>> calls;  ///< until gRPC is done with them
  std::unique_ptr<grpc::Server> server;
};

/// A call. What gRPC does comes from its threads, what is answered from any: `mutex_` is for both. The context is there until gRPC was told how it
/// ends, and then until done_.
class Call final : public grpc::ServerGenericBidiReactor, public std::enable_shared_from_this<Call> {
 public:
  Call(Calls& server, grpc::GenericCallbackServerContext& context, const GrpcMethod& method) : server_(server), context_(context), method_(method) {
    const auto header = [&](const char* name) {
      const auto& all = context.client_metadata();
      const auto found = all.find(name);
      return found == all.end() ? std::string() : std::string(found->second.data(), found->second.size());
    };
    request_ = {.method = std::string(method.method()),
                .path = std::string(method.path()),
                .query = {},
                .authorization = header("authorization"),
                .api_key = header("x-api-key"),
                .peer = peer_of(context.peer())};
  }

  /// Asks whether it may come in before its message is read.
  void begin() {
    server_.thread.post([self = shared_from_this()] {
      HttpHeaders more;
      const std::optional<HttpReply> refused = self->server_.check(self->request_, more);
      {
        const std::lock_guard lock(self->mutex_);
        if (self->finished_) return;
        for (const auto& [name, value] : more) self->context_.AddInitialMetadata(lower(name), value);
      }
      refused ? self->reply(*refused) : self->read();
    });
  }

  void reply(const HttpReply& reply) {
    const Json answer = Json::parse_or_null(reply.body);
    if (reply.status != 200) {
      {
        const std::lock_guard lock(mutex_);
        if (has_written_ || ends_) return;
        for (const auto& [name, value] : reply.headers) {
          if (name == "Retry-After") context_.AddTrailingMetadata("retry-after", value);
        }
      }
      return end(status_of(reply.status, answer));
    }
    write(answer);
    end(grpc::Status::OK);
  }

  /// Events as text/event-stream has them, whole ones.
  void send(std::string_view events) {
    constexpr std::string_view data = "data: ";
    while (!events.empty()) {
      const std::string_view line = events.substr(0, events.find('\n'));
      events.remove_prefix(std::min(line.size() + 1, events.size()));
      if (!line.starts_with(data) || line == "data: [DONE]") continue;
      const Json event = Json::parse_or_null(line.substr(data.size()));
      const Json* error = event.find("error");
      if (error == nullptr) {
        write(event);
        continue;
      }
      const Json* code = error->find("code");
      constexpr int unknown = 500;
      end(status_of(code != nullptr && code->is_number_unsigned() ? code->get<int>() : unknown, event));
    }
  }

  /// Behind what was written. The first status holds: gRPC may tell that a call is cancelled before it tells that nothing more is read, and only then
  /// may be told of the end.
  void end(grpc::Status status) {
    std::function<void()> unneeded;  // goes without the mutex, with all that it holds
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(ends_, true)) {
        status_ = std::move(status);
        unneeded = std::exchange(on_gone_, {});
      }
    }
    go_on();
  }

  void on_gone(std::function<void()> f) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_gone_) {
        if (!ends_) on_gone_.swap(f);
        return;
      }
    }
    server_.thread.post(std::move(f));
  }

  /// Ends it where its client takes too long.
  void check_time(Clock::time_point now) {
    {
      const std::lock_guard lock(mutex_);
      if (now <= wait_until_) return;
    }
    cancel();
  }
  /// What this ends may be told at once, on this thread: without the mutex.
  void cancel() {
    const std::lock_guard lock(context_mutex_);
    if (!done_) context_.TryCancel();
  }

 private:
  void read() {
    {
      const std::lock_guard lock(mutex_);
      if (ends_) return;
      reads_ = true;
      wait_until_ = Clock::now() + server_.limits.body_time;
    }
    StartRead(&buffer_);
  }
  void write(const Json& answer) {
    grpc::ByteBuffer buffer = buffer_of(method_.message_of(answer));
    {
      const std::lock_guard lock(mutex_);
      if (ends_) return;
      has_written_ = true;
      to_write_.push_back(std::move(buffer));
    }
    go_on();
  }

  /// Writes what waits, then the end; one after the other. gRPC is asked without the mutex, as it may answer at once.
  void go_on() {
    enum class Next : std::uint8_t { nothing, write, finish } next = Next::nothing;
    {
      const std::lock_guard lock(mutex_);
      if (reads_ || writes_ || finished_) return;
      if (!to_write_.empty()) {
        next = Next::write;
        writes_ = true;
        buffer_ = std::move(to_write_.front());
        to_write_.pop_front();
        wait_until_ = Clock::now() + server_.limits.write_time;
      } else if (ends_) {
        next = Next::finish;
        finished_ = true;
        wait_until_ = Clock::now() + server_.limits.write_time;
      }
    }
    if (next == Next::write) StartWrite(&buffer_);
    if (next == Next::finish) Finish(status_);
  }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      writes_ = false;
      wait_until_ = Clock::time_point::max();
      if (!ok) to_write_.clear();
    }
    go_on();
  }
  void OnCancel() override {
    std::function<void()> gone;
    {
      const std::lock_guard lock(mutex_);
      is_gone_ = true;
      to_write_.clear();
      gone = std::exchange(on_gone_, {});
    }
    if (gone) server_.thread.post(std::move(gone));
    end(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    {
      const std::lock_guard lock(context_mutex_);
      done_ = true;
    }
    const std::shared_ptr<Call> self = shared_from_this();
    const std::lock_guard lock(server_.mutex);
    server_.calls.erase(self);
  }

  Calls& server_;
  grpc::GenericCallbackServerContext& context_;
  const GrpcMethod& method_;
  HttpRequest request_;
  std::mutex mutex_, context_mutex_;
  grpc::ByteBuffer buffer_;  ///< that is being read or written
  std::deque<grpc::ByteBuffer> to_write_;
  grpc::Status status_;
  std::function<void()> on_gone_;
  bool reads_ = false, writes_ = false;  ///< gRPC is about it
  bool has_written_ = false;
  bool ends_ = false;      ///< status_ is known
  bool finished_ = false;  ///< gRPC was told
  bool is_gone_ = false;
  bool done_ = false;      ///< the context is there no more; of context_mutex_
  Clock::time_point wait_until_ = Clock::time_point::max();
};

namespace {

/// What handlers hold of a call.
class CallAnswer final : public Exchange {
 public:
  CallAnswer(std::shared_ptr<Call> call, HttpRequest request) : call_(std::move(call)), request_(std::move(request)) {}
  ~CallAnswer() override { call_->end({grpc::StatusCode::INTERNAL, "the server lost this request"}); }

  [[nodiscard]] const HttpRequest& request() const noexcept override { return request_; }
  void reply(HttpReply reply) override { call_->reply(reply); }
  void expect_stream(StreamForm /*form*/) override {}
  void send(std::string events) override { call_->send(events); }
  void end() override { call_->end(grpc::Status::OK); }
  void on_gone(std::function<void()> f) override { call_->on_gone(std::move(f)); }

 private:
  const std::shared_ptr<Call> call_;
  const HttpRequest request_;
};

}  // namespace

void Call::OnReadDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    reads_ = false;
    wait_until_ = Clock::time_point::max();
  }
  if (!ok) return end({grpc::StatusCode::INVALID_ARGUMENT, "request: expected a message, found none"});
  HttpRequest request = request_;
  try {
    request.body = method_.body_of(text_of(buffer_));
  } catch (const std::bad_alloc&) {
    return end({grpc::StatusCode::UNAVAILABLE, "out of memory"});
  } catch (const std::exception& error) {
    return end({grpc::StatusCode::INVALID_ARGUMENT, error.what()});
  }
  buffer_.Clear();
  // A client that left meanwhile is found to be gone.
  server_.thread.post([self = shared_from_this(), request = std::move(request)]() mutable {
    self->server_.handler(std::make_shared<CallAnswer>(self, std::move(request)));
  });
  go_on();
}

grpc::ServerGenericBidiReactor* Calls::CreateReactor(grpc::GenericCallbackServerContext* context) {
  struct Refusal final : grpc::ServerGenericBidiReactor {
    explicit Refusal(grpc::Status status) { Finish(std::move(status)); }
    void OnDone() override { delete this; }
  };
  const GrpcMethod* method = GrpcMethod::find(context->method());
  if (method == nullptr) return new Refusal({grpc::StatusCode::UNIMPLEMENTED, message("there is no ", printable(context->method()))});
  if (!listens || closes) return new Refusal({grpc::StatusCode::UNAVAILABLE, closes ? "the server is shutting down" : "the server is starting"});
  const auto call = std::make_shared<Call>(*this, *context, *method);
  {
    const std::lock_guard lock(mutex);
    if (calls.size() >= limits.connections) return new Refusal({grpc::StatusCode::UNAVAILABLE, "too many calls"});
    calls.insert(call);
  }
  call->begin();
  return call.get();
}

namespace {

/// gRPC's own threads: they are joined at the end. Left to end by themselves they do so while the process ends, under whoever looks at its threads
/// then, as leak checkers do.
struct GrpcThreads {
  GrpcThreads() { grpc_init(); }
  ~GrpcThreads() { grpc_shutdown_blocking(); }
  GrpcThreads(const GrpcThreads&) = delete;
  GrpcThreads& operator=(const GrpcThreads&) = delete;
};

class Door final : public GrpcDoor {
 public:
  Door(const HttpAddress& address, const HttpLimits& limits, GrpcThread thread) : calls_(limits, std::move(thread)) {
    // What goes wrong is told by us, in a line.
    gpr_set_log_function([](gpr_log_func_args*) {});
    grpc::EnableDefaultHealthCheckService(true);
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    if (!address.key_file.empty()) {
      grpc::SslServerCredentialsOptions tls;
      tls.pem_key_cert_pairs.push_back({file_text(address.key_file), file_text(address.certificate_file)});
      credentials = grpc::SslServerCredentials(tls);
    }
    const std::string host = address.host.find(':') == std::string::npos ? address.host : message('[', address.host, ']');
    int port = 0;
    constexpr int alive_ms = 20000, answer_ms = 10000;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(message(host, ':', address.port), credentials, &port);
    builder.SetMaxReceiveMessageSize(static_cast<int>(limits.body_bytes));
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(limits.header_bytes));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(limits.connections));
    // Who is gone without a word is noticed.
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, alive_ms);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, answer_ms);
    builder.RegisterCallbackGenericService(&calls_);
    calls_.server = builder.BuildAndStart();
    if (!calls_.server || port == 0)
      fail(Errc::io, printable(address.host), ':', address.port, ": expected an address for gRPC to listen on, found one that is taken, or not of this machine");
    tell(false);
    address_ = message(host, ':', port);
  }
  ~Door() override { Door::stop(); }

  [[nodiscard]] std::string address() const override { return address_; }

  void listen(HttpCheck check, HttpHandler handler, std::function<bool()> is_well) override {
    calls_.check = std::move(check);
    calls_.handler = std::move(handler);
    calls_.listens = true;
    sweep(std::move(is_well));
  }

  void close(std::chrono::seconds time) override {
    if (closing_.joinable()) return;
    calls_.closes = true;
    tell(false);
    closing_ = std::thread([this, until = std::chrono::system_clock::now() + time] {
      // Until the calls at hand have ended new ones are refused in words. Behind Shutdown() gRPC cancels what comes before its clients know of it, and
      // a call that is cancelled is not tried elsewhere.
      constexpr std::chrono::milliseconds pause{10};
      while (is_busy() && std::chrono::system_clock::now() < until) std::this_thread::sleep_for(pause);
      // What is left are connections. A client that is idle may not hear that it is to leave, and would be waited for.
      constexpr std::chrono::milliseconds farewell{200};
      calls_.server->Shutdown(std::chrono::system_clock::now() + farewell);
    });
  }

  [[nodiscard]] bool is_busy() const override { return !calls_.all().empty(); }

  void stop() override {
    if (!calls_.server) return;
    for (const std::shared_ptr<Call>& call : calls_.all()) call->cancel();
    close(std::chrono::seconds(0));
    closing_.join();
    calls_.server.reset();
  }

 private:
  void tell(bool is_well) { calls_.server->GetHealthCheckService()->SetServingStatus(is_well); }

  void sweep(std::function<bool()> is_well) {
    constexpr std::chrono::seconds pause{1};
    for (const std::shared_ptr<Call>& call : calls_.all()) call->check_time(Clock::now());
    tell(!closing_.joinable() && is_well());
    calls_.thread.after(pause, [this, is_well = std::move(is_well)]() mutable { sweep(std::move(is_well)); });
  }

  GrpcThreads threads_;  ///< last of all
  Calls calls_;
  std::string address_;
  std::thread closing_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) GrpcDoor* bantam_open_grpc(const HttpAddress& address, const HttpLimits& limits, GrpcThread thread) {
  return new Door(address, limits, std::move(thread));
}

}  // namespace bantam::server
