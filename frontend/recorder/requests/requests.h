// What the frontend asks of the record: values, and an end of it where it grows too long. No MLIR.
#pragma once

#include <span>
#include <vector>

#include "frontend/recorder/record/recorder.h"
#include "frontend/recorder/slices/request.h"

namespace weft::recorder {

// Submits the slice that computes the values; they are leaves afterwards, maybe in flight.
void submit(std::span<Value *const> roots, const EvaluateRequest &request);
// Waits for a leaf's buffer; raises its run's error.
const void *wait_for(Value *leaf, Location location);
// Fails with kState where the rank has but a part of what is to be read.
void refuse_part(const TypeInfo &type, Location location);
// As wait_for(), of what the rank has all of: the bytes where the host reads them, in `room` if
// that is not the device's memory.
const void *host_bytes(Value *leaf, Location location, std::vector<char> &room);
// Waits until nothing reads or writes the leaf's buffer, which nobody shares afterwards.
void *make_writable(Value *leaf, Location location);
void synchronize_all();
// A storage whose recorded writes nothing has begun to compute is again what it was in memory.
void take_back_write(TensorImpl &storage);
// Or again `pending`, which it held since and was yet to be computed then; where that is null or
// gone, what it was in memory.
void take_back_write(TensorImpl &storage, Value *pending);
// After a public call: with WEFT_EAGER=1 computes x, and cuts when a budget is reached.
void after_call(Tensor &x);
// While one lives, what this thread calls is not followed so. For calls within one that writes what
// it has read: a cut gives up the lock, and what others write then would be overwritten.
class Uncut : Scope {
public:
  Uncut();
  ~Uncut();
};
// A step's or a backward's end: where a budget may cut.
void mark();
// Where memory has run out: computes what was recorded before this number, if ops keep inputs that
// nobody else does, and waits. False where nothing could be done.
bool free_inputs(uint64_t before = UINT64_MAX);
// The same for a new tensor of the user's: where there is no memory, what is recorded and under way
// gives back what it can first. Between calls: no slice may be claimed.
std::shared_ptr<runtime::Buffer> buffer_of_new(const void *bytes, int64_t count, uint8_t device);

} // namespace weft::recorder
