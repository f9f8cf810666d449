// Signals are the program's: a thread that is started while one of these lives gets none, and a
// socket whose other end is closed raises none here.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace weft::runtime {

class WithoutSignals {
public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_); // a thread inherits it
  }
  ~WithoutSignals() {
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSignals(const WithoutSignals &) = delete;
  WithoutSignals &operator=(const WithoutSignals &) = delete;

private:
  sigset_t before_;
};

} // namespace weft::runtime
