// For tests: what a program meets where the system gives it no more threads.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

namespace weft::runtime {

// As long as it lives no thread begins: its stack would be larger than the address space.
class NoThreads {
public:
  NoThreads() {
    pthread_attr_t large;
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    EXPECT_EQ(pthread_attr_init(&large), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&large, size_t(1) << 48), 0);
    EXPECT_EQ(pthread_setattr_default_np(&large), 0);
    pthread_attr_destroy(&large);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads &) = delete;
  NoThreads &operator=(const NoThreads &) = delete;

private:
  pthread_attr_t before_;
};

} // namespace weft::runtime
