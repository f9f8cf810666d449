// Cuts: claim a slice, find or compile its program, launch it, turn its outputs into leaves.
#include <chrono>
#include <new>

#include "frontend/compile/compile_slice.h"
#include "frontend/recorder/programs/find_program.h"
#include "frontend/recorder/programs/stability.h"
#include "frontend/recorder/requests/room.h"
#include "frontend/recorder/runs/exchange.h"
#include "frontend/recorder/runs/invocation.h"
#include "frontend/recorder/runs/undo.h"
#include "frontend/recorder/slices/claims.h"
#include "frontend/recorder/slices/slice.h"
#include "runtime/core/ends.h"
#include "runtime/core/thrown.h"
#include "runtime/executable/run_failure.h"
#include "runtime/executor/device.h"
#include "runtime/profile/profile.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace weft::recorder {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// An error of a run stands where the op was recorded, if that is known. Who learns of it first is
// given it as it is, others are told why they have no value.
[[noreturn]] void raise_run(const absl::Status &status, const Value *leaf, Location location) {
  std::string what;
  bool told = leaf->evaluation && std::exchange(leaf->evaluation->told, true);
  if (!is_lost(leaf))
    what = "a program failed, and what it writes in place is again what it was before: ";
  else if (told)
    what = "the value was lost when the program that computes it failed (record it again; eval() "
           "before what may fail keeps it): ";
  ErrorKind kind = kind_of(status, ErrorKind::kRun);
  std::optional<runtime::LocatedFailure> failure = runtime::located(status);
  if (!failure)
    throw Error(kind, what + std::string(status.message()), location);
  location = CallerScope::resolve(location);
  throw Error(kind,
              what + failure->message + " (asked for at " + location.file_name() + ":" +
                  std::to_string(location.line()) + ")",
              failure->file, failure->line);
}

// While a function is recorded its arguments have no memory: another thread has got hold of one.
void refuse_placeholder(const Value *leaf, Location location) {
  if (leaf->cell && !leaf->cell->buffer)
    fail_at(location, ErrorKind::kState,
            "another thread computes with an argument of a function while weft::jit or weft::trace "
            "records it: the argument has no value yet; compute in the function's own thread, or "
            "before the call");
}

[[noreturn]] void refuse_evaluation(const Trace &trace, const EvaluateRequest &request) {
  if (request.reason == CutReason::kMask)
    fail_at(request.location, ErrorKind::kState,
            std::string(Session::op()) +
                ": how many elements the result has depends on values, which there are none of "
                "while weft::" +
                trace.what +
                " records the function: use where() or a product with the mask, or index_add() "
                "into zeros of a size that is known, which keep the shape, or call it outside and "
                "pass what it gives");
  fail_at(
      request.location, ErrorKind::kState,
      std::string("a value is asked for (") + name(request.reason) + ") while weft::" + trace.what +
          " records the function, which computes nothing: return the tensor instead, or ask before "
          "the call");
}

// A request that is cut into parts. What it writes in place is written by parts that begin when all
// others that may fail have succeeded, so that the request is done or not.
struct Parts {
  std::span<const Part> later;                             // those that are not submitted yet
  std::vector<std::shared_ptr<const runtime::Event>> ends; // of runs that may fail
  llvm::SmallPtrSet<const Value *, 16> asked;              // the roots of the request
  bool have_written = false;                               // some of these, in place
};

// What one submission computes: its roots and, where these are no part of a request, what goes with
// them.
struct Wanted {
  std::span<Value *const> roots;
  const EvaluateRequest &request;
  Parts *parts = nullptr; // that it is one of
};

// False where it meets ops that another thread has claimed.
bool collect(const Wanted &wanted, Slice &slice) {
  if (!collect(wanted.roots, slice))
    return false;
  std::vector<Value *> more;
  if (!wanted.parts) {
    more = companions(slice, wanted.request.reason);
    add_pending(more);
    if (!more.empty()) {
      more.insert(more.begin(), wanted.roots.begin(), wanted.roots.end());
      slice = Slice();
      if (!collect(more, slice))
        return false;
    }
  }
  // Of a part too: since the request was cut, another thread may have left an op of it.
  leave_temporaries(slice, more.empty() ? wanted.roots : more, wanted.request);
  for (size_t i : kept_leaves(slice))
    slice.key.leaves[i].donatable = slice.key.leaves[i].kept = false;
  return true;
}

// Of the leaves that the program may write those that it gets a copy of, in order, with their
// values in memory.
llvm::SmallVector<size_t> copied_leaves(const Slice &slice) {
  while (true) {
    llvm::SmallVector<size_t> copied = kept_leaves(slice);
    auto under_way = llvm::find_if(
        copied, [&](size_t i) { return !slice.leaves[i]->cell->buffer->is_written(); });
    if (under_way == copied.end())
      return copied;
    ValueRef held(slice.leaves[*under_way]);
    std::shared_ptr<runtime::Buffer> buffer = held->cell->buffer;
    RecorderMutex::Pause pause(recorder().mutex);
    buffer->wait().IgnoreError(); // which the run fails of
  }
}

// A slice that reads what a failed run has lost raises that run's error, and writes nothing.
void refuse_lost_leaves(const Slice &slice, const Wanted &wanted) {
  for (Value *leaf : slice.leaves) {
    refuse_placeholder(leaf, wanted.request.location);
    bool known = is_lost(leaf);
    ValueRef held(leaf);
    absl::Status status = loss_of(leaf);
    if (status.ok())
      continue;
    Slice now; // other threads may have computed parts of it meanwhile
    if (collect(wanted, now))
      drop_writes(now, /*all=*/!known);
    for (const Part &part : wanted.parts ? wanted.parts->later : std::span<const Part>()) {
      std::vector<Value *> roots(part.begin(), part.end());
      if (Slice then; collect(roots, then))
        drop_writes(then, /*all=*/!known);
    }
    drop_pending();
    raise_run(status, leaf, wanted.request.location);
  }
}

// What a function computed while it was recorded has no value afterwards, unless it returned it.
void refuse_ended_recording(std::span<Value *const> roots, Location location) {
  uint64_t epoch = ++recorder().epoch;
  std::vector<Node *> nodes;
  auto visit = [&](Value *value) {
    if (value->node && std::exchange(value->node->epoch, epoch) != epoch)
      nodes.push_back(value->node);
  };
  llvm::for_each(roots, visit);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->tracer == kEnded)
      fail_at(location, ErrorKind::kState,
              describe(nodes[i]) +
                  " was recorded inside a function that weft::jit or weft::trace has recorded: it "
                  "has no value outside; return the tensor from the function, or write it in place "
                  "with copy_; if the function writes it, let no other thread use it before the "
                  "function's first call has ended");
    llvm::for_each(nodes[i]->operands, visit);
  }
}

void submit(const Wanted &wanted);

// Whether the caller reads a value next, so that it has nothing to do while the program runs.
bool is_waited_for(CutReason reason) {
  using enum CutReason;
  return reason == kValue || reason == kEval || reason == kWrite || reason == kMask;
}

// Handles keep what is to come, and go as soon as it is under way: what is read later must not look
// as if somebody held it.
//
// have_written: as Parts has it, of earlier parts, and of these afterwards.
void submit_parts(std::vector<Part> parts, const Wanted &wanted, bool &have_written) {
  const EvaluateRequest &request = wanted.request;
  Parts all{parts, {}, {wanted.roots.begin(), wanted.roots.end()}, have_written};
  for (Part &part : parts) {
    all.later = all.later.subspan(1);
    std::vector<Value *> roots(part.begin(), part.end());
    try {
      submit({roots, request, &all});
    } catch (const Error &error) {
      if (!all.have_written || request.reason != CutReason::kStep)
        throw;
      throw Error(error.kind() == ErrorKind::kMemory ? ErrorKind::kRun : error.kind(),
                  "a part of the step has been made, on another device, and cannot be taken back; "
                  "load parameters, moments and counts again, or go on with them as they are: " +
                      error.message(),
                  error.file(), error.line());
    }
    part.clear();
    drop_pending();
  }
  have_written = all.have_written;
}

// The program cuts the record here itself, and a loop at the same place of its body each time.
void note_cut() {
  Recorder &r = recorder();
  if (r.cutting)
    return;
  r.last_cut = r.next_number;
  r.input_looks = 0;
  r.looked_ops = 0;
  r.held_input_bytes = std::min(r.held_input_bytes, r.input_bytes);
}

// The run of a slice, bound to its leaves. Throws where there is no program or no group for it.
void prepare(Slice &slice, const Wanted &wanted, Clock::time_point start,
             std::optional<Invocation> &made, std::shared_ptr<const runtime::Event> &end) {
  const EvaluateRequest &request = wanted.request;
  FoundProgram found =
      slice.is_exchange ? find_exchange(slice, request) : find_program(slice, request);
  found.figures.record_ms = since(start) - found.figures.compile_ms;
  made.emplace(found);
  if (wanted.parts) {
    bool writes = !slice.is_exchange && slice.writes(); // exchanges write memory of their own
    made->follow(writes ? wanted.parts->ends : std::vector<std::shared_ptr<const runtime::Event>>(),
                 end, wanted.parts->have_written);
  }
  llvm::SmallVector<size_t> copied = copied_leaves(slice);
  for (size_t i = 0; i < slice.leaves.size(); ++i)
    made->bind(slice.leaves[i], /*copies=*/llvm::is_contained(copied, i));
  if (runtime::asking_is_traced > 0) {
    std::vector<runtime::Origin> origins;
    for (const Value *output : slice.outputs)
      if (const Node *node = output->node)
        origins.push_back({node->signature->name.getStringRef().str(), node->line->place()});
      else
        origins.emplace_back();
    made->come_from(std::move(origins));
  }
  prepare_undo(slice, *made->record());
}

void submit(const Wanted &wanted) {
  const auto &[roots, request, parts] = wanted;
  Attempt attempt = Attempt::kFirst;
  bool have_written = false; // parts of this
  while (true) {
    auto start = Clock::now();
    runtime::profile::Span span([&] {
      return runtime::profile::Label{runtime::profile::Kind::kSubmit,
                                     std::string("submit: ") + name(request.reason)};
    });
    Slice slice;
    bool is_whole = collect(wanted, slice);
    if (is_whole && slice.nodes.empty())
      return;
    // Before a wait, too: in a forked child the end of another thread's claim never comes.
    if (const char *why = runtime::why_not_compute())
      fail_at(request.location, ErrorKind::kState, why);
    if (!is_whole) {
      refuse_ended_recording(roots, request.location);
      wait_for_a_claim();
      continue;
    }
    refuse_lost_leaves(slice, wanted);
    if (slice.is_mixed) {
      submit_parts(parts_of(slice), wanted, have_written);
      continue;
    }
    mark_stable(slice);
    if (being_compiled(slice)) {
      wait_for_a_program(request.location);
      continue;
    }
    std::optional<Claim> claimed(slice);
    std::optional<Invocation> made;
    bool has_started = false;
    std::shared_ptr<const runtime::Event> end;
    try {
      prepare(slice, wanted, start, made, end);
      has_started = made->launch(attempt, request.location, Guard::kClaim);
    } catch (const Error &error) {
      abandon_pending(error.message());
      throw;
    } catch (const std::bad_alloc &) {
      const char *what = "there is not enough memory on the host to compute what is asked for";
      abandon_pending(what);
      fail_at(request.location, ErrorKind::kMemory,
              what + std::string("; what was recorded is computed when it is asked for again"));
    } catch (...) { // of a plugin: no rank may wait for this one
      abandon_pending(runtime::thrown_text());
      throw;
    }
    if (!has_started) {
      uint64_t first = slice.nodes.front()->number;
      made.reset(); // with the memory that it took already
      claimed.reset();
      if (!parts)
        free_inputs(first);
      make_room();
      attempt = Attempt::kLast;
      continue;
    }
    Invocation &invocation = *made;
    if (parts && invocation.record()->may_fail)
      parts->ends.push_back(std::move(end));
    for (size_t i = 0; i < slice.outputs.size(); ++i)
      invocation.publish(i, slice.outputs[i]);
    if (parts)
      for (const Value *output : slice.outputs)
        parts->have_written =
            parts->have_written || (output->writers && parts->asked.contains(output));
    settle_writes(slice, roots, invocation.record());
    claimed->succeed();
    note_cut();
    invocation.finish(/*waits=*/!parts && is_waited_for(request.reason));
    return;
  }
}

} // namespace

void submit(std::span<Value *const> roots, const EvaluateRequest &request) {
  if (const Trace *trace = active_trace())
    refuse_evaluation(*trace, request);
  drop_pending();
  submit({roots, request});
}

void check_leaf(Value *leaf, Location location) {
  if (absl::Status status = loss_of(leaf); !status.ok())
    raise_run(status, leaf, location);
}

void refuse_part(const TypeInfo &type, Location location) {
  if (type.part)
    fail_at(location, ErrorKind::kState,
            "the tensor is " + describe(type) + ", of which this rank has " + describe(*type.part) +
                "; distributed::whole(x), called by all ranks, gives all of it, and "
                "distributed::local_part(x) what is here");
}

const void *wait_for(Value *leaf, Location location) {
  if (leaf->is_scalar)
    return &leaf->bits;
  refuse_placeholder(leaf, location);
  ValueRef held(leaf);
  if (std::shared_ptr<runtime::Buffer> buffer = leaf->cell->buffer; !buffer->is_written()) {
    RecorderMutex::Pause pause(recorder().mutex);
    runtime::profile::Span span(runtime::profile::Kind::kWait, "wait for a value");
    buffer->wait().IgnoreError();
    if (runtime::is_forked_child() && !buffer->is_written())
      fail_at(location, ErrorKind::kState, runtime::why_not_compute());
  }
  check_leaf(leaf, location);
  return leaf->is_scalar ? static_cast<const void *>(&leaf->bits) : leaf->cell->buffer->data();
}

const void *host_bytes(Value *leaf, Location location, std::vector<char> &room) {
  refuse_part(*leaf->type, location);
  const void *there = wait_for(leaf, location);
  if (leaf->is_scalar || host_reads(leaf->type->device))
    return there;
  room.resize(static_cast<size_t>(leaf->type->bytes));
  absl::Status status =
      runtime::device(leaf->type->device).read(room.data(), there, leaf->type->bytes);
  if (!status.ok())
    fail_at(location, ErrorKind::kRun, std::string(status.message()));
  return room.data();
}

void *make_writable(Value *leaf, Location location) {
  const void *old = wait_for(leaf, location);
  Cell *cell = leaf->cell;
  if (cell && cell->owners == 1 && !cell->borrowed && !cell->buffer->is_constant() &&
      !is_kept(*cell)) {
    std::shared_ptr<runtime::Buffer> buffer = cell->buffer;
    absl::Status status;
    {
      ValueRef held(leaf);
      RecorderMutex::Pause pause(recorder().mutex);
      runtime::profile::Span span(runtime::profile::Kind::kWait, "wait to write");
      status = buffer->wait_idle();
    }
    if (!status.ok())
      raise_run(status, leaf, location);
    buffer->changed();
    cell->has_writer = true;
    return buffer->data();
  }
  std::shared_ptr<runtime::Buffer> copy = buffer_of(old, leaf->type->bytes, leaf->type->device);
  if (cell)
    release_cell(cell);
  leaf->cell = new Cell{.buffer = copy, .owners = 1, .has_writer = true};
  leaf->is_scalar = false;
  return copy->data();
}

std::shared_ptr<runtime::Buffer> buffer_of_new(const void *bytes, int64_t count, uint8_t device) {
  try {
    return make_with_room([&] { return buffer_of(bytes, count, device); });
  } catch (const Error &error) {
    int64_t kept = recorder().input_bytes;
    if (error.kind() != ErrorKind::kMemory || kept == 0)
      throw;
    throw Error(ErrorKind::kMemory,
                error.message() + "; recorded ops keep " + runtime::format_bytes(kept) +
                    " of tensors that nobody else holds: eval() what they compute",
                Session::location());
  }
}

void synchronize_all() {
  drain();
}

} // namespace weft::recorder
