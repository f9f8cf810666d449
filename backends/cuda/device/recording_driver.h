// How tests look into the recording driver (recording_driver.cpp), whose functions they find by
// name in its library.
#pragma once

extern "C" {
// Everything that was called since the last reset, a line each.
typedef const char *(*weft_recording_log_t)();
// What was wrong: addresses outside of live memory, memory freed while the stream needs it, calls
// that may not be made while a graph is recorded, ...; a line each.
typedef const char *(*weft_recording_errors_t)();
// Blocks that are allocated.
typedef long (*weft_recording_live_t)();
typedef void (*weft_recording_reset_t)();
// From now on the n-th call of that function (from 0), or every one, fails with that error, and
// after an error that a context does not survive all calls do; an empty name: none does.
enum { kWeftRecordingEvery = -2 };
typedef void (*weft_recording_fail_t)(const char *function, int n, int error);
// What a launch computes: gets the kernel's name, and its arguments: of pointers, addresses in the
// host's memory that stand for those on the GPU.
typedef void (*weft_recording_kernel)(const char *name, void **pointers, int count);
typedef void (*weft_recording_run_t)(weft_recording_kernel kernel);
}
