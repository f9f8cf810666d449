#include "runtime/collective/tcp_store.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/collective/link.h"
#include "runtime/collective/store_server.h"
#include "runtime/collective/tcp.h"
#include "runtime/core/status.h"

namespace weft::runtime {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRetry{30};
// What listens at an address and says nothing, or loses what is sent there, may be an address that
// an earlier job has left: the next try may find rank 0.
constexpr std::chrono::milliseconds kMostPatience{1000};

class TcpStore : public Store {
public:
  // `address`: where the others find this rank.
  TcpStore(std::unique_ptr<StoreServer> server, Socket socket, std::string unread,
           std::string session, std::string address)
      : server_(std::move(server)), socket_(std::move(socket)), in_(std::move(unread)),
        session_(std::move(session)), address_(std::move(address)) {
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
      WEFT_RETURN_IF_ERROR(write({Frame::kGet, name, ""}, deadline));
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
    // What a deadline has cut off goes first, or rank 0 takes this frame for the rest of that one.
    unsent_ += encode(frame);
    for (;;) {
      if (!write_some(socket_, unsent_))
        return absl::UnavailableError("rank 0 has gone");
      if (unsent_.empty())
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
  std::string unsent_; // under it
  std::mutex mutex_; // of all below
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::string failure_;
  std::function<void(const std::string &)> callback_;
  bool calling_ = false, ended_ = false, leaving_ = false;
  std::thread reader_;
};

// Where rank 0 listens: "port address address ...", any of which may reach it.
struct Place {
  int port = 0;
  std::vector<std::string> addresses;

  static Place parse(std::istream &text) {
    Place place;
    text >> place.port;
    for (std::string address; text >> address;)
      place.addresses.push_back(address);
    return place;
  }
};

std::string place_of_rank_0(const World &world) {
  std::vector<std::string> addresses;
  if (world.local_size == world.size)
    addresses = {"127.0.0.1"};
  else if (!world.address.empty())
    addresses = {world.address};
  else
    addresses = machine_addresses();
  std::string text = std::to_string(world.port);
  for (const std::string &address : addresses)
    absl::StrAppend(&text, " ", address);
  return text;
}

Place find_rank_0(const World &world) {
  if (world.file.empty())
    return {world.port, {world.address}};
  std::ifstream file(world.file);
  return Place::parse(file);
}

// In one step, so that nobody reads half of it.
absl::Status write_meeting_file(const World &world) {
  std::string temporary = absl::StrCat(world.file, ".", getpid());
  std::ofstream file(temporary);
  file << place_of_rank_0(world) << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), world.file.c_str()) != 0) {
    std::remove(temporary.c_str());
    return absl::UnavailableError(
        absl::StrCat("rank 0 cannot write the file ", world.file,
                     ", where ranks meet (WEFT_RENDEZVOUS): ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status no_meeting_place(const World &world) {
  return absl::InvalidArgumentError(absl::StrCat(
      world.starter.empty() ? "the program" : world.starter, " has started rank ", world.rank,
      " of ", world.size, ", but ",
      world.address.empty() && !world.port ? "neither MASTER_ADDR nor MASTER_PORT is"
      : world.port                         ? "MASTER_ADDR is not"
                                           : "MASTER_PORT is not",
      " set: give every rank both (the machine of rank 0, and a port that is free there), or "
      "WEFT_RENDEZVOUS, the path of a file that all ranks can write"));
}

// Where the others find a rank that has come from the address `own`. machine: rank 0's, as told.
absl::StatusOr<std::string> address_among_others(int rank, std::string own,
                                                 const std::string &machine) {
  if (machine.empty())
    return own;
  if (is_loopback(own)) // it is on rank 0's machine
    return machine;
  if (is_ipv6(own) == is_ipv6(machine))
    return own;
  std::string towards = address_towards(machine);
  if (towards.empty() || is_loopback(towards))
    return absl::UnavailableError(absl::StrCat(
        "rank ", rank, " has reached rank 0 from ", own, ", other ranks over ",
        is_ipv6(machine) ? "IPv6" : "IPv4", ", at ", machine, ", to which rank ", rank,
        " has no way: ranks connect with each other in one family of addresses; set MASTER_ADDR "
        "to an address of rank 0's machine that all ranks reach"));
  return towards;
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

// `told`: where rank 0 listens, if the layer has said it.
absl::StatusOr<std::unique_ptr<Store>> join(const World &world, const Place *told,
                                            Deadline deadline,
                                            std::unique_ptr<StoreServer> server) {
  std::string address, in;
  int port = 0;
  Socket socket;
  absl::Status why = absl::UnavailableError("rank 0 has not written where it listens");
  bool is_stranger = false;
  auto rank_0 = [&] {
    std::string place = port ? absl::StrCat(" at ", address, ":", port) : "";
    return world.file.empty() ? absl::StrCat("rank 0", place)
                              : absl::StrCat("rank 0", place, " (from the file ", world.file, ")");
  };
  const auto patience =
      std::min(kMostPatience,
               std::chrono::milliseconds(static_cast<int64_t>(world.meeting_seconds() * 125)));
  // Rank 0 may come later, and what an earlier job has left in the file is overwritten then.
  for (size_t tries = 0;;) {
    in.clear();
    is_stranger = false;
    if (Place place = told ? *told : find_rank_0(world); !place.addresses.empty()) {
      address = place.addresses[tries++ % place.addresses.size()];
      port = place.port;
      auto connected = connect_to(address, port, deadline, patience);
      why = connected.status();
      if (connected.ok()) {
        socket = *std::move(connected);
        auto hello = next_frame(socket, in, std::min(deadline, steady_clock::now() + patience));
        if (hello.ok() && hello->kind == Frame::kHello && hello->value == kHelloText)
          break;
        why = hello.status();
        // Else a rank 0 that ends, or is stopped: it may go on, or the next one come.
        is_stranger = hello.ok() || absl::IsFailedPrecondition(why);
      }
    }
    bool is_late = steady_clock::now() + kRetry >= deadline;
    if (is_stranger && (is_late || (world.file.empty() && !told)))
      return absl::FailedPreconditionError(
          absl::StrCat("what listens where ", rank_0(),
                       " is to be is no rank 0 of Weft: another program uses that port; give "
                       "the job another MASTER_PORT"));
    if (is_late)
      return absl::UnavailableError(absl::StrCat(
          "rank ", world.rank, " has not reached ", rank_0(), " within ", world.meeting_seconds(),
          " s (", why.message(),
          "). See whether rank 0 was started, and whether its address is right; if it is only "
          "late, raise the timeout (WEFT_RENDEZVOUS_TIMEOUT, in seconds)"));
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
  auto own = address_among_others(world.rank, own_address(socket), answer->name);
  auto store = std::make_unique<TcpStore>(std::move(server), std::move(socket), std::move(in),
                                          answer->value, own.value_or(""));
  if (!own.ok())
    return decode_failure(store->fail(encode_failure(own.status()), late));
  return store;
}

} // namespace

static absl::StatusOr<std::unique_ptr<Store>> meet_at(const World &given, const Meet &meet) {
  World world = given;
  bool is_told = !world.file.empty() || (!world.address.empty() && world.port);
  if (!is_told && !meet)
    return no_meeting_place(world);
  // Ranks of one machine meet on its loopback, whatever name their starter has for the machine.
  if (world.file.empty() && world.local_size == world.size)
    world.address = "127.0.0.1";
  auto seconds = std::chrono::duration<double>(world.meeting_seconds());
  Deadline deadline =
      steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(seconds);
  std::unique_ptr<StoreServer> server;
  absl::Status listens;
  if (world.rank == 0) {
    auto started = StoreServer::start(world, deadline);
    listens = started.status();
    if (listens.ok())
      server = *std::move(started);
    if (listens.ok() && !world.file.empty())
      listens = write_meeting_file(world);
  }
  Place told;
  if (!is_told) {
    // An error of rank 0's begins with a letter.
    std::string text = listens.ok() ? place_of_rank_0(world) : std::string(listens.message());
    WEFT_RETURN_IF_ERROR(meet(text));
    std::istringstream words(text);
    told = Place::parse(words);
    if (listens.ok() && told.addresses.empty())
      listens = absl::UnavailableError(text);
  }
  if (!listens.ok())
    return listens;
  auto store = join(world, is_told ? nullptr : &told, deadline, std::move(server));
  if (world.rank == 0 && !world.file.empty())
    std::remove(world.file.c_str()); // all are there: a later job must not find it
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> connect_store(const World &world, const Meet &meet) {
  try {
    return meet_at(world, meet);
  } catch (const std::system_error &error) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "rank ", world.rank, " cannot start the threads by which ranks meet: ", error.what()));
  }
}

} // namespace weft::runtime
