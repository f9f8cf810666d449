// Where computing ends: a thread whose objects go, and the child of a fork().
#pragma once

#include <pthread.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

namespace weft::runtime {

namespace detail {
// No objects: they are still there when those of the thread, and static ones, have gone.
inline std::atomic<bool> is_forked{false};
inline constinit thread_local bool has_ended = false;
inline constinit thread_local int runs_here = 0;
} // namespace detail

// A thread_local one marks the end of its thread: what Weft and the libraries keep for a thread
// goes from here on. exit() ends the objects of the thread that calls it before all static objects
// and all functions of atexit(), so that those find the mark.
struct EndOfThread {
  ~EndOfThread() {
    detail::has_ended = true;
  }
};

// While the calling thread runs what others may wait for, or a piece of it. A user's kernel may
// call exit(): what goes then waits for no run, as this one never ends.
struct RunsHere {
  RunsHere() {
    ++detail::runs_here;
  }
  ~RunsHere() {
    --detail::runs_here;
  }
  RunsHere(const RunsHere &) = delete;
  RunsHere &operator=(const RunsHere &) = delete;
};
inline bool is_inside_a_run() {
  return detail::runs_here > 0;
}

// Before the first thread is started: a child of a fork() from now on knows that it is one.
inline void expect_forks() {
  [[maybe_unused]] static const bool expects =
      pthread_atfork(nullptr, nullptr,
                     [] { detail::is_forked.store(true, std::memory_order_relaxed); }) == 0;
}
// Of a process that had threads of Weft's: it has none of them, and what they held stays held.
inline bool is_forked_child() {
  return detail::is_forked.load(std::memory_order_relaxed);
}

// Null, or why the calling thread can compute nothing.
inline const char *why_not_compute() {
  if (detail::has_ended) [[unlikely]]
    return "the thread ends, and computes nothing any more: destructors of static and thread_local "
           "objects and functions of atexit() can read what has been computed; compute it before "
           "(before main() returns or exit() is called)";
  if (is_forked_child()) [[unlikely]]
    return "this process is a child of fork(), which has none of the threads that compute; fork "
           "before the first call of Weft, or start a program in the child (exec)";
  return nullptr;
}

// Deletes what threads share. The child of a fork() leaves it as it is: a thread that is not there
// may hold its lock or have been changing it, and a condition variable's destructor waits for those
// that wait for it.
struct DeleteUnlessForked {
  template <typename T> void operator()(T *shared) const {
    if (!is_forked_child())
      delete shared;
  }
};

// thread.join(). The child of a fork() has a handle for a thread that is not there: it can neither
// be waited for nor be given back.
inline void join(std::thread &thread) {
  if (!is_forked_child())
    return thread.join();
  static auto *left = new std::vector<std::thread>;
  left->push_back(std::move(thread));
}

} // namespace weft::runtime
