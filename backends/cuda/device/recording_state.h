// What the recording driver (recording_driver.cpp) shares with the libraries that stand in for
// others beside it. All but the mutex is for who holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace weft::backends::cuda::recording {

std::mutex &mutex();
// The error that a test wants of this call, or 0.
int failure_of(const char *function);
// A line of what was called, and of what was wrong.
void record(const std::string &line);
void object(const std::string &line);
// Whether the calling thread is in a GPU's context, and which.
bool has_context();
const void *context_of_thread();
// Done when somebody waits for the stream.
void put_on(void *stream, std::function<void()> run);
// While work is done: the host's address of `bytes` bytes on "the GPU"; null, and an objection,
// where they are not in one live block.
unsigned char *find_bytes(uint64_t address, size_t bytes, const char *what);

} // namespace weft::backends::cuda::recording
