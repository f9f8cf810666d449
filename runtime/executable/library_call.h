// Entry points of vendor libraries, as programs call them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/executable/program.h"

namespace weft::runtime {

// The state of one LibraryCall of one loaded program for one number of threads (a library's
// primitive), ready to run.
class LibraryCallState {
public:
  virtual ~LibraryCallState() = default;
  // Memory that run() needs while it runs, at a multiple of kBufferAlignment.
  virtual int64_t scratch_bytes() const {
    return 0;
  }
  // Why it computes in another way than the entry would rather: "name: a sentence". Explain and
  // profiles show it; empty where it does not.
  virtual std::string detour() const {
    return "";
  }
  // operands: the elements [0, ..., 0] of the call's operands, in order. Called by the device's
  // executor only, but for a state for one thread of a ConcurrentEntry: any thread calls that.
  virtual absl::Status run(std::span<void *const> operands, void *scratch) = 0;
};

// As LibraryCallState, for a call one of whose operands is in a form of the library's own, in a
// buffer of packed_bytes().
class PackedCallState : public LibraryCallState {
public:
  // Which operand run() expects in that form.
  virtual int operand() const = 0;
  virtual int64_t packed_bytes() const = 0;
  // Names the form, and which contents of the operand it depends on. Two operands of equal contents
  // whose texts are equal have equal packed bytes.
  virtual std::string form() const = 0;
  // Writes the packed form of the plain operand. Called by whom run() may be called by.
  virtual absl::Status pack(const void *plain, void *packed) = 0;
};

class LibraryEntry {
public:
  virtual ~LibraryEntry() = default;
  virtual std::string_view name() const = 0;
  // A state, never null. InvalidArgument for operands or a config that do not fit the entry,
  // Unimplemented for what it does not do; the message says which.
  virtual absl::StatusOr<std::unique_ptr<LibraryCallState>> init(const LibraryCall &call,
                                                                 int threads) const = 0;
  // Operations of one call, for profiles: 2 m n k of a product. 0 if not known.
  virtual double operations(const LibraryCall &) const {
    return 0;
  }
  // The same call with one operand packed; null if packing does not pay, or would change bits.
  // `stable` says of each operand whether it is the same in many runs.
  virtual absl::StatusOr<std::unique_ptr<PackedCallState>>
  init_packed(const LibraryCall &, const std::vector<bool> &, int) const {
    return nullptr;
  }
};

// An entry of whose states for one thread several may run at once, on any threads.
class ConcurrentEntry : public LibraryEntry {};

// entry.operations(); not known where it throws.
double operations_of(const LibraryEntry &entry, const LibraryCall &call);
// state.run(); Internal for an exception.
absl::Status run_state(LibraryCallState &state, std::span<void *const> operands, void *scratch);
// What entry.init() gives, checked. Internal for an exception, a state that is null, and one that
// asks for less scratch than none or more than a buffer has.
absl::StatusOr<std::unique_ptr<LibraryCallState>> init_state(const LibraryEntry &entry,
                                                             const LibraryCall &call, int threads);

// The entry of that name, or null.
using LibraryResolver = std::function<const LibraryEntry *(std::string_view name)>;

// Lookups in a config. InvalidArgument names the key when it is missing or of another type; the
// forms with a default take a missing key.
absl::StatusOr<int64_t> config_int(const Config &config, std::string_view key);
absl::StatusOr<int64_t> config_int(const Config &config, std::string_view key, int64_t otherwise);
absl::StatusOr<std::string> config_string(const Config &config, std::string_view key,
                                          std::string_view otherwise);
absl::StatusOr<std::vector<int64_t>> config_ints(const Config &config, std::string_view key);
const ConfigValue *find_config(const Config &config, std::string_view key);

} // namespace weft::runtime
