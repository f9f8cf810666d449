// The store of ranks that are threads of one process.
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "runtime/collective/store.h"

#include <unistd.h>

namespace weft::runtime {
namespace {

class LocalStore;

struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  std::string failure;
  std::string session, address = "127.0.0.1";
  std::vector<LocalStore *> ranks; // under `mutex`; null: has left
};

class LocalStore : public Store {
public:
  LocalStore(std::shared_ptr<Shared> shared, size_t rank)
      : shared_(std::move(shared)), rank_(rank) {}
  ~LocalStore() override {
    leave();
  }

  absl::Status set(const std::string &name, const std::string &value) override {
    std::lock_guard lock(shared_->mutex);
    shared_->values[name] = value;
    shared_->changed.notify_all();
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> get(const std::string &name, Deadline deadline) override {
    std::unique_lock lock(shared_->mutex);
    auto there = [&] {
      return shared_->values.contains(name) || !shared_->failure.empty();
    };
    if (!shared_->changed.wait_until(lock, deadline, there))
      return absl::DeadlineExceededError(absl::StrCat("no rank has set '", name, "'"));
    if (!shared_->failure.empty())
      return decode_failure(shared_->failure);
    return shared_->values[name];
  }

  std::string fail(const std::string &failure, Deadline) override {
    std::string agreed;
    {
      std::lock_guard lock(shared_->mutex);
      if (shared_->failure.empty())
        shared_->failure = failure;
      agreed = shared_->failure;
      shared_->changed.notify_all();
    }
    // One at a time: a rank that leaves meanwhile waits in leave() for its callback's end.
    for (size_t rank = 0; rank < shared_->ranks.size(); ++rank) {
      std::unique_lock lock(shared_->mutex);
      if (LocalStore *store = shared_->ranks[rank])
        store->call_back(lock);
    }
    return agreed;
  }

  void watch(std::function<void(const std::string &)> callback) override {
    std::unique_lock lock(shared_->mutex);
    callback_ = std::move(callback);
    if (!shared_->failure.empty())
      call_back(lock);
  }

  void leave() override {
    std::unique_lock lock(shared_->mutex);
    shared_->ranks[rank_] = nullptr;
    shared_->changed.wait(lock, [&] { return !calling_; });
    callback_ = nullptr;
  }

  const std::string &session() const override {
    return shared_->session;
  }
  const std::string &address() const override {
    return shared_->address;
  }

  void enter() {
    std::lock_guard lock(shared_->mutex);
    shared_->ranks[rank_] = this;
  }

private:
  // Without the lock: what is called may call a store.
  void call_back(std::unique_lock<std::mutex> &lock) {
    auto callback = std::move(callback_);
    callback_ = nullptr;
    if (!callback)
      return;
    calling_ = true;
    lock.unlock();
    callback(shared_->failure); // written once
    lock.lock();
    calling_ = false;
    shared_->changed.notify_all();
  }

  std::shared_ptr<Shared> shared_;
  size_t rank_;
  std::function<void(const std::string &)> callback_; // under the shared mutex, as is calling_
  bool calling_ = false;
};

} // namespace

std::string encode_failure(const absl::Status &status) {
  return absl::StrCat(static_cast<int>(status.code()), " ", status.message());
}

absl::Status decode_failure(const std::string &text) {
  int code = 0;
  size_t at = 0;
  for (; at < text.size() && at < 2 && text[at] >= '0' && text[at] <= '9'; ++at)
    code = code * 10 + (text[at] - '0');
  if (at == 0 || at >= text.size() || text[at] != ' ' || code < 1 || code > 16)
    return absl::UnavailableError(text);
  return absl::Status(static_cast<absl::StatusCode>(code), text.substr(at + 1));
}

absl::Status rank_gone(int rank, std::string_view how) {
  return absl::UnavailableError(absl::StrCat(
      "rank ", rank, " has gone", how.empty() ? "" : " (", std::string(how), how.empty() ? "" : ")",
      ": its process ended, or its machine is out of reach. Its output says why; "
      "start the job again"));
}

absl::Status rank_without_memory(int rank) {
  return absl::ResourceExhaustedError(
      absl::StrCat("rank ", rank, " has no memory for a collective: give its process more"));
}

std::vector<std::unique_ptr<Store>> local_stores(int size) {
  static std::atomic<int64_t> worlds{0};
  auto shared = std::make_shared<Shared>();
  shared->session = absl::StrCat("local", getpid(), "x", worlds.fetch_add(1));
  shared->ranks.resize(static_cast<size_t>(size));
  std::vector<std::unique_ptr<Store>> stores;
  for (int rank = 0; rank < size; ++rank) {
    auto store = std::make_unique<LocalStore>(shared, static_cast<size_t>(rank));
    store->enter();
    stores.push_back(std::move(store));
  }
  return stores;
}

} // namespace weft::runtime
