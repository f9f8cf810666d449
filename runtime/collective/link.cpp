#include "runtime/collective/link.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/collective/layers.h"
#include "runtime/collective/without_signals.h"
#include "runtime/core/ends.h"
#include "runtime/core/status.h"
#include "runtime/core/thrown.h"

namespace weft::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

milliseconds timeout_of(const World &world) {
  return milliseconds(static_cast<int64_t>(world.timeout_seconds * 1000));
}
milliseconds meeting_timeout_of(const World &world) {
  return milliseconds(static_cast<int64_t>(world.meeting_seconds() * 1000));
}

// The store as a layer sees it.
struct Names {
  Store *store; // null in a job of one rank, which finds nobody
  Deadline deadline;
};

const char *keep(const absl::Status &status) {
  thread_local std::string text;
  text = std::string(status.message());
  return status.ok() ? nullptr : text.c_str();
}

const char *set_name(void *data, const char *name, const void *value, int64_t bytes) {
  auto &names = *static_cast<Names *>(data);
  if (!names.store)
    return nullptr;
  return keep(names.store->set(
      name, std::string(static_cast<const char *>(value), static_cast<size_t>(bytes))));
}

const char *get_name(void *data, const char *name, void *value, int64_t capacity, int64_t *bytes) {
  auto &names = *static_cast<Names *>(data);
  if (!names.store)
    return "a job of one rank has no names of others";
  absl::StatusOr<std::string> found = names.store->get(name, names.deadline);
  if (!found.ok())
    return keep(found.status());
  *bytes = static_cast<int64_t>(found->size());
  if (*bytes > capacity)
    return keep(absl::InvalidArgumentError(absl::StrCat("'", name, "' has ", *bytes,
                                                        " bytes, more than the ", capacity,
                                                        " that there is room for")));
  std::memcpy(value, found->data(), found->size());
  return nullptr;
}

// What a function of a layer says of its failure, by its result or by an exception: a layer in C++
// may throw.
template <typename Call> const char *failure_of(const char *function, Call call) {
  try {
    return call();
  } catch (...) {
    thread_local std::string text;
    text = absl::StrCat("its ", function, "() ", thrown_text());
    return text.c_str();
  }
}

// A function that gives no result: there is nobody who could be told in another way.
template <typename Call>
void without_throwing(const weft_collective_layer &layer, const char *function, Call call) {
  try {
    call();
  } catch (...) {
    std::fprintf(stderr, "weft: the collective layer '%s' is at fault: its %s() %s\n", layer.name,
                 function, thrown_text().c_str());
  }
}

} // namespace

std::thread start_thread(void (*body)(void *), void *data) {
  WithoutSignals without;
  expect_forks();
  return std::thread(body, data);
}

absl::StatusOr<std::shared_ptr<Link>> Link::connect(const World &world, std::string_view layer,
                                                    std::shared_ptr<Store> store) {
  // The other ranks wait for this one.
  auto refused = [&](absl::Status why) {
    if (store)
      store->fail(encode_failure(why), steady_clock::now() + milliseconds(1000));
    return why;
  };
  auto found = find_collective_layer(layer);
  if (!found.ok())
    return refused(found.status());
  if (world.size < 1 || world.rank < 0 || world.rank >= world.size || !(world.timeout_seconds > 0))
    return refused(absl::InvalidArgumentError(
        absl::StrCat("rank ", world.rank, " of ", world.size, " ranks, timeout ",
                     world.timeout_seconds, " s: there are no such worlds")));
  if (!(*found)->post)
    return refused(absl::InvalidArgumentError(absl::StrCat(
        "the layer '", std::string(layer),
        "' connects devices: connect the ranks through another one, and add this one to it")));
  std::shared_ptr<Link> link(new Link(world, **found, store), DeleteUnlessForked());
  if (world.size == 1)
    return link;
  WEFT_ASSIGN_OR_RETURN(void *connection, link->open(link->layer_));
  link->connection_ = connection;
  store->watch([raw = link.get()](const std::string &failure) { raw->end(failure); });
  return link;
}

absl::StatusOr<void *> Link::open(const weft_collective_layer &layer) {
  Names names{store_.get(), steady_clock::now() + meeting_timeout_of(world_)};
  weft_collective_world given = {};
  given.struct_size = sizeof given;
  given.rank = world_.rank;
  given.size = world_.size;
  given.timeout_ms = meeting_timeout_of(world_).count();
  given.session = store_ ? store_->session().c_str() : "alone";
  given.address = store_ ? store_->address().c_str() : "127.0.0.1";
  given.store = &names;
  given.set = set_name;
  given.get = get_name;
  void *connection = nullptr;
  if (const char *why =
          failure_of("connect", [&] { return layer.connect(&given, &connection); }))
    return fail(absl::UnavailableError(
        absl::StrCat("rank ", world_.rank, " cannot connect with the others through the layer '",
                     layer.name, "': ", why)));
  return connection;
}

absl::Status Link::add_devices(std::string_view layer) {
  auto found = find_collective_layer(layer);
  if (!found.ok())
    return fail(found.status()); // the other ranks wait for this one
  if (!(*found)->enqueue)
    return absl::InvalidArgumentError(
        absl::StrCat("the layer '", (*found)->name, "' has no collectives on devices"));
  if (devices_)
    return absl::FailedPreconditionError("the ranks' devices are connected already");
  device_layer_ = **found;
  WEFT_ASSIGN_OR_RETURN(auto connection, open(device_layer_));
  devices_ = connection;
  if (!status().ok()) // it came while there was nothing to abort
    abort();
  return status();
}

absl::Status Link::enqueue(const weft_collective_call &call) {
  if (const char *why =
          failure_of("enqueue", [&] { return device_layer_.enqueue(devices_, &call); }))
    return absl::InvalidArgumentError(why);
  return absl::OkStatus();
}

absl::StatusOr<void *> Link::split_devices(void *group, int color, int rank) {
  void *made = nullptr;
  if (const char *why = failure_of("split", [&] {
        return device_layer_.split(devices_, group, color, rank,
                                   meeting_timeout_of(world_).count(), &made);
      }))
    return fail(absl::UnavailableError(absl::StrCat("rank ", world_.rank,
                                                    " cannot split a group of "
                                                    "devices through the layer '",
                                                    device_layer_.name, "': ", why)));
  return made;
}

void Link::leave_devices(void *group) {
  without_throwing(device_layer_, "leave", [&] { device_layer_.leave(devices_, group); });
}

Meet Link::meeting(const World &world, std::string_view layer) {
  auto found = find_collective_layer(layer);
  if (!found.ok() || !(*found)->meet)
    return nullptr;
  return [world, layer = *found](std::string &text) -> absl::Status {
    weft_collective_world given = {};
    given.struct_size = sizeof given;
    given.rank = world.rank;
    given.size = world.size;
    given.timeout_ms = meeting_timeout_of(world).count();
    char bytes[1024] = {};
    text.copy(bytes, sizeof bytes - 1);
    if (const char *why =
            failure_of("meet", [&] { return layer->meet(&given, bytes, sizeof bytes); }))
      return absl::UnavailableError(absl::StrCat("rank ", world.rank,
                                                 " cannot meet the others "
                                                 "through the layer '",
                                                 layer->name, "': ", why));
    bytes[sizeof bytes - 1] = 0;
    text = bytes;
    return absl::OkStatus();
  };
}

void Link::leave() {
  if (store_)
    store_->leave(); // no end() comes after it
}

Link::~Link() {
  leave();
  if (devices_)
    without_throwing(device_layer_, "close", [&] { device_layer_.close(devices_); });
  if (connection_)
    without_throwing(layer_, "close", [&] { layer_.close(connection_); });
}

absl::Status Link::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

void Link::end(const std::string &failure) {
  {
    std::lock_guard lock(mutex_);
    if (status_.ok())
      status_ = decode_failure(failure);
  }
  abort();
}

void Link::abort() {
  // What devices wait for ends, too.
  if (devices_)
    without_throwing(device_layer_, "abort", [&] { device_layer_.abort(devices_); });
  if (connection_)
    without_throwing(layer_, "abort", [&] { layer_.abort(connection_); });
}

milliseconds Link::agreement() const {
  return std::min<milliseconds>(milliseconds(1000), timeout_of(world_) / 10);
}

absl::Status Link::fail(const absl::Status &why) {
  return fail(why, steady_clock::now() + agreement());
}

absl::Status Link::fail_late(const Wait &wait) {
  const auto now = steady_clock::now();
  auto name_of = [](int rank) {
    return absl::StrCat("waits/", rank);
  };
  // Who waits for whom, from this rank on, as far as ranks have said so.
  std::vector<std::pair<int, Wait>> chain{{rank(), wait}};
  auto place_of = [&](int of) {
    return std::find_if(chain.begin(), chain.end(),
                        [&](const auto &each) { return each.first == of; });
  };
  bool is_known =
      store_ &&
      store_->set(name_of(rank()), absl::StrCat(wait.peer, " ", wait.channel, " ", wait.what)).ok();
  while (is_known && place_of(chain.back().second.peer) == chain.end()) {
    int next = chain.back().second.peer;
    auto text = store_->get(name_of(next), now + agreement() / 2);
    if (!text.ok())
      break;
    Wait its;
    char *rest = nullptr;
    its.peer = static_cast<int>(std::strtol(text->c_str(), &rest, 10));
    its.channel = std::strtoull(rest, &rest, 10);
    its.what = *rest ? rest + 1 : "";
    chain.emplace_back(next, its);
  }
  auto circle = place_of(chain.back().second.peer);
  std::string several;
  if (std::any_of(circle, chain.end(), [&](const auto &each) {
        return each.second.channel != chain.back().second.channel;
      }))
    for (auto each = circle; each != chain.end(); ++each)
      absl::StrAppend(&several, several.empty() ? "" : ", ", "rank ", each->first,
                      " waits for rank ", each->second.peer, " in ", each->second.what);
  if (!several.empty())
    return fail(absl::DeadlineExceededError(absl::StrCat(
                    several, ", for longer than the timeout of ", timeout_seconds(),
                    " s: ranks use groups in one order; see why these calls come in another one")),
                now + agreement());
  // Ranks of one call that wait for each other are out of each other's reach.
  int silent = circle == chain.end() ? chain.back().second.peer : chain.back().first;
  return fail(absl::DeadlineExceededError(absl::StrCat(
                  "rank ", silent, " is silent for longer than the timeout of ", timeout_seconds(),
                  " s: it is stopped, elsewhere in its program, in a call of another group, or out "
                  "of reach. Its output says where it is; if it is only slow, raise the timeout "
                  "(WEFT_COLLECTIVE_TIMEOUT, in seconds)")),
              now + agreement());
}

absl::Status Link::fail(const absl::Status &why, Deadline agreed) {
  if (absl::Status known = status(); known.ok())
    end(store_ ? store_->fail(encode_failure(why), agreed) : encode_failure(why));
  else
    abort(); // another thread may be on its way to it
  return status();
}

const char *Link::post(weft_collective_transfer &transfer) {
  try {
    return layer_.post(connection_, &transfer);
  } catch (...) {
    fail_thrown(layer_, "post");
    return "its post() threw an exception";
  }
}

int32_t Link::wait(weft_collective_transfer &transfer, Deadline deadline, const char *&why) {
  auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
  try {
    return layer_.wait(connection_, &transfer, std::max<int64_t>(left.count(), 0), &why);
  } catch (...) {
    fail_thrown(layer_, "wait");
    return WEFT_TRANSFER_FAILED;
  }
}

void Link::fail_thrown(const weft_collective_layer &layer, const char *function) {
  (void)fail(absl::InternalError(absl::StrCat("rank ", rank(), ": the collective layer '",
                                              layer.name, "' is at fault: its ", function, "() ",
                                              thrown_text())));
}

Deadline Link::deadline() const {
  return steady_clock::now() + timeout_of(world_) - agreement();
}

} // namespace weft::runtime
