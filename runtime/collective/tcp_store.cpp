#include "runtime/collective/tcp_store.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/collective/link.h"
#include "runtime/collective/store_server.h"
#include "runtime/collective/tcp.h"

namespace weft::runtime {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRetry{30};

class TcpStore : public Store {
public:
  TcpStore(std::unique_ptr<StoreServer> server, Socket socket, std::string unread,
           std::string session)
      : server_(std::move(server)), socket_(std::move(socket)), in_(std::move(unread)),
        session_(std::move(session)), address_(own_address(socket_)) {
    reader_ = start_thread([](void *store) { static_cast<TcpStore *>(store)->read(); }, this);
  }
  ~TcpStore() override {
    leave();
  }

  absl::Status set(const std::string &name, const std::string &value) override {
    return write({Frame::kSet, name, value}, steady_clock::now() + std::chrono::seconds(1));
  }

  absl::StatusOr<std::string> get(const std::string &name, Deadline deadline) override {
    std::unique_lock lock(mutex_);
    if (!values_.contains(name)) {
      lock.unlock();
      if (absl::Status status = write({Frame::kGet, name, ""}, deadline); !status.ok())
        return status;
      lock.lock();
    }
    auto there = [&] {
      return values_.contains(name) || !failure_.empty() || ended_;
    };
    if (!changed_.wait_until(lock, deadline, there))
      return absl::DeadlineExceededError(absl::StrCat("no rank has set '", name, "'"));
    if (auto it = values_.find(name); it != values_.end())
      return it->second;
    return failure_.empty() ? absl::UnavailableError("rank 0 has left") : decode_failure(failure_);
  }

  std::string fail(const std::string &failure, Deadline deadline) override {
    // A failed write shows as the end of the connection.
    (void)write({Frame::kFail, "", failure}, deadline);
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [&] { return !failure_.empty() || ended_; });
    return failure_.empty() ? failure : failure_;
  }

  void watch(std::function<void(const std::string &)> callback) override {
    std::unique_lock lock(mutex_);
    callback_ = std::move(callback);
    if (!failure_.empty())
      call_back(lock);
  }

  void leave() override {
    if (!reader_.joinable())
      return;
    {
      std::lock_guard lock(mutex_);
      leaving_ = true;
    }
    (void)write({Frame::kLeave, "", ""}, steady_clock::now() + std::chrono::milliseconds(100));
    shutdown(socket_.get(), SHUT_RDWR); // the reader comes to its end
    reader_.join();
    // A callback from watch() runs on its caller's thread.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !calling_; });
    callback_ = nullptr;
    lock.unlock();
    server_.reset();
  }

  const std::string &session() const override {
    return session_;
  }
  const std::string &address() const override {
    return address_;
  }

private:
  absl::Status write(const Frame &frame, Deadline deadline) {
    std::unique_lock lock(writing_, std::defer_lock);
    if (!lock.try_lock_until(deadline))
      return absl::DeadlineExceededError("rank 0 does not answer");
    std::string bytes = encode(frame);
    for (;;) {
      if (!write_some(socket_, bytes))
        return absl::UnavailableError("rank 0 has gone");
      if (bytes.empty())
        return absl::OkStatus();
      if (!wait_for(socket_, POLLOUT, deadline))
        return absl::DeadlineExceededError("rank 0 does not answer");
    }
  }

  void read() {
    bool in_order = false, open = true;
    for (;;) {
      Frame frame;
      int decoded;
      while ((decoded = decode(in_, frame)) > 0) {
        std::unique_lock lock(mutex_);
        if (frame.kind == Frame::kValue)
          values_[frame.name] = frame.value;
        if (frame.kind == Frame::kFailure && failure_.empty()) {
          failure_ = frame.value;
          call_back(lock);
        }
        in_order |= frame.kind == Frame::kLeave;
        changed_.notify_all();
      }
      if (decoded < 0 || !open)
        break;
      wait_for(socket_, POLLIN, Deadline::max());
      open = read_some(socket_, in_) >= 0;
    }
    std::unique_lock lock(mutex_);
    ended_ = true;
    // Rank 0 has left in order, or this rank leaves: no failure, though none can be agreed on.
    if (!in_order && failure_.empty() && !leaving_) {
      failure_ = encode_failure(rank_gone(0));
      call_back(lock);
    }
    changed_.notify_all();
  }

  void call_back(std::unique_lock<std::mutex> &lock) {
    auto callback = std::move(callback_);
    callback_ = nullptr;
    changed_.notify_all();
    if (!callback)
      return;
    calling_ = true;
    std::string failure = failure_;
    lock.unlock();
    callback(failure);
    lock.lock();
    calling_ = false;
    changed_.notify_all();
  }

  std::unique_ptr<StoreServer> server_; // rank 0
  Socket socket_;
  std::string in_; // the reader's
  std::string session_, address_;
  std::timed_mutex writing_;
  std::mutex mutex_; // of all below
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::string failure_;
  std::function<void(const std::string &)> callback_;
  bool calling_ = false, ended_ = false, leaving_ = false;
  std::thread reader_;
};

// Where rank 0 listens: what it has written into the file, else the address and the port.
bool find_rank_0(const World &world, std::string &address, int &port) {
  address = world.address;
  port = world.port;
  if (world.file.empty())
    return true;
  std::ifstream file(world.file);
  return static_cast<bool>(file >> address >> port);
}

// In one step, so that nobody reads half of it.
absl::Status write_meeting_file(const World &world) {
  std::string address = "127.0.0.1", temporary = absl::StrCat(world.file, ".", getpid());
  if (world.local_size != world.size) {
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0)
      return absl::UnavailableError("this machine has no name");
    address = host;
  }
  std::ofstream file(temporary);
  file << address << " " << world.port << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), world.file.c_str()) != 0) {
    std::remove(temporary.c_str());
    return absl::UnavailableError(
        absl::StrCat("rank 0 cannot write the file ", world.file,
                     ", where ranks meet (WEFT_RENDEZVOUS): ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

// The next frame; `in` keeps what came after it.
absl::StatusOr<Frame> next_frame(const Socket &socket, std::string &in, Deadline deadline) {
  Frame frame;
  for (;;) {
    int decoded = decode(in, frame);
    if (decoded > 0)
      return frame;
    if (decoded < 0)
      return absl::FailedPreconditionError("it speaks another language");
    if (!wait_for(socket, POLLIN, deadline))
      return absl::DeadlineExceededError("it says nothing");
    if (read_some(socket, in) < 0)
      return absl::UnavailableError("it has closed the connection");
  }
}

absl::StatusOr<std::unique_ptr<Store>> join(const World &world, Deadline deadline,
                                            std::unique_ptr<StoreServer> server) {
  std::string address, in;
  int port = 0;
  Socket socket;
  absl::Status why = absl::UnavailableError("rank 0 has not written where it listens");
  auto rank_0 = [&] {
    std::string place = port ? absl::StrCat(" at ", address, ":", port) : "";
    return world.file.empty() ? absl::StrCat("rank 0", place)
                              : absl::StrCat("rank 0", place, " (from the file ", world.file, ")");
  };
  // Rank 0 may come later, and what an earlier job has left in the file is overwritten then.
  for (;;) {
    in.clear();
    if (find_rank_0(world, address, port)) {
      auto connected = connect_to(address, port, deadline);
      why = connected.status();
      if (connected.ok()) {
        socket = *std::move(connected);
        auto hello = next_frame(socket, in, deadline);
        if (hello.ok() && hello->kind == Frame::kHello && hello->value == kHelloText)
          break;
        if (absl::IsUnavailable(hello.status()))
          why = hello.status(); // a rank 0 that ends; the next one may come
        else
          return absl::FailedPreconditionError(
              absl::StrCat("what listens where ", rank_0(),
                           " is to be is no rank 0 of Weft: another program uses that port; give "
                           "the job another MASTER_PORT"));
      }
    }
    if (steady_clock::now() + kRetry >= deadline)
      return absl::UnavailableError(absl::StrCat(
          "rank ", world.rank, " has not reached ", rank_0(), " within ", world.timeout_seconds,
          " s (", why.message(),
          "). See whether rank 0 was started, and whether its address is right; if it is only "
          "late, raise the timeout (WEFT_COLLECTIVE_TIMEOUT, in seconds)"));
    std::this_thread::sleep_for(kRetry);
  }
  std::string hello = encode({Frame::kJoin, world.job, absl::StrCat(world.rank, " ", world.size)});
  while (write_some(socket, hello) && !hello.empty() && wait_for(socket, POLLOUT, deadline)) {}
  // Rank 0 says itself who is late; its time may have begun after this rank's.
  Deadline late = deadline + std::chrono::seconds(1);
  auto answer = next_frame(socket, in, late);
  if (!answer.ok())
    return absl::UnavailableError(absl::StrCat(
        rank_0(), " has not accepted rank ", world.rank, " (", answer.status().message(),
        "): it does so when all ranks have come. Their output says why they have not"));
  if (answer->kind == Frame::kFailure)
    return decode_failure(answer->value);
  if (answer->kind != Frame::kAccept)
    return absl::FailedPreconditionError(answer->value);
  return std::make_unique<TcpStore>(std::move(server), std::move(socket), std::move(in),
                                    answer->value);
}

} // namespace

static absl::StatusOr<std::unique_ptr<Store>> meet(const World &given) {
  World world = given;
  // Ranks of one machine meet on its loopback, whatever name their starter has for the machine.
  if (world.file.empty() && world.local_size == world.size)
    world.address = "127.0.0.1";
  auto seconds = std::chrono::duration<double>(world.timeout_seconds);
  Deadline deadline =
      steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(seconds);
  std::unique_ptr<StoreServer> server;
  if (world.rank == 0) {
    auto started = StoreServer::start(world, deadline);
    if (!started.ok())
      return started.status();
    server = *std::move(started);
    if (!world.file.empty())
      if (absl::Status status = write_meeting_file(world); !status.ok())
        return status;
  }
  auto store = join(world, deadline, std::move(server));
  if (world.rank == 0 && !world.file.empty())
    std::remove(world.file.c_str()); // all are there: a later job must not find it
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> connect_store(const World &world) {
  try {
    return meet(world);
  } catch (const std::system_error &error) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "rank ", world.rank, " cannot start the threads by which ranks meet: ", error.what()));
  }
}

} // namespace weft::runtime
