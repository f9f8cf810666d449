// How the test looks into the libraries that stand in for NCCL and the driver, whose functions it
// finds by name.
#pragma once

extern "C" {
// From now on these bytes are in the memory of a device.
typedef void (*weft_recording_memory_t)(const void *data, long bytes, int device);
// What a rank of the first communicator has called since the last reset, a line each.
typedef const char *(*weft_recording_nccl_log_t)(int rank);
// What was wrong: ranks of a communicator that called different things, communicators that were
// used after their end, calls outside of what they belong to; a line each.
typedef const char *(*weft_recording_nccl_errors_t)();
// Communicators that there are.
typedef int (*weft_recording_nccl_live_t)();
typedef void (*weft_recording_nccl_reset_t)();
}
