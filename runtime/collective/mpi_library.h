// Open MPI, opened at run time: its functions, and the thread on which it runs. Private.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace weft::runtime {

// As Open MPI declares them: handles are addresses of what the library keeps. (MPI's own standard
// says nothing of how they look, so that a library of another maker's, MPICH for instance, is
// another interface.)
struct MpiStatus {
  int source, tag, error, cancelled;
  size_t bytes;
};
using MpiCommunicator = void *;
using MpiDatatype = void *;
using MpiRequest = void *;
constexpr int kMpiAnySource = -1, kMpiThreadMultiple = 3, kMpiTagUpperBound = 0;

#define WEFT_MPI_FUNCTIONS(F)                                                                      \
  F(Initialized, (int *))                                                                          \
  F(Finalized, (int *))                                                                            \
  F(Init_thread, (int *, char ***, int, int *))                                                    \
  F(Query_thread, (int *))                                                                         \
  F(Finalize, ())                                                                                  \
  F(Comm_size, (MpiCommunicator, int *))                                                           \
  F(Comm_dup, (MpiCommunicator, MpiCommunicator *))                                                \
  F(Comm_split, (MpiCommunicator, int, int, MpiCommunicator *))                                    \
  F(Comm_set_errhandler, (MpiCommunicator, void *))                                                \
  F(Comm_get_attr, (MpiCommunicator, int, void *, int *))                                          \
  F(Bcast, (void *, int, MpiDatatype, int, MpiCommunicator))                                       \
  F(Isend, (const void *, int, MpiDatatype, int, int, MpiCommunicator, MpiRequest *))              \
  F(Irecv, (void *, int, MpiDatatype, int, int, MpiCommunicator, MpiRequest *))                    \
  F(Iprobe, (int, int, MpiCommunicator, int *, MpiStatus *))                                       \
  F(Test, (MpiRequest *, int *, MpiStatus *))                                                      \
  F(Cancel, (MpiRequest *))                                                                        \
  F(Error_string, (int, char *, int *))

class Mpi {
public:
  static Mpi &instance();

  // Opens and initialises it, once: empty, or why that cannot be, each time the same. MPI has no
  // deadlines: what its ranks do together runs on a thread of its own, whose end is waited for
  // until then. That thread also moves messages on while nobody waits for one, and ends MPI when
  // the process ends.
  std::string start(std::chrono::milliseconds timeout);
  // Runs on that thread what calls MPI and says what went wrong.
  std::string run(std::function<std::string()> body, std::chrono::milliseconds timeout);
  // What `result` of a function says; empty for success.
  std::string error(int result, const char *what) const;
  // A job has failed: its messages may never be complete, and MPI cannot end in order.
  void give_up();
  // Whether MPI has ended: none of its functions may be called any more.
  bool is_over() const;
  // Beside a connection. Where the program ends MPI itself, it does so when all have left: no
  // thread calls MPI any more by then.
  void enter();
  void leave();

  // Of all ranks, with errors that are returned; after start().
  MpiCommunicator world = nullptr;
  MpiDatatype byte = nullptr;
  int size = 0;
  int most_tags = 32767; // what the standard grants

#define WEFT_MPI_MEMBER(name, arguments) int(*name) arguments = nullptr;
  WEFT_MPI_FUNCTIONS(WEFT_MPI_MEMBER)
#undef WEFT_MPI_MEMBER

private:
  struct Thread;

  Mpi();
  std::string begin(std::chrono::milliseconds timeout);
  std::string open();
  std::string initialise();
  void loop();
  void pulse();
  void end();

  void *errors_return_ = nullptr;
  Thread *thread_; // never freed: it may hang in MPI when the process ends
};

} // namespace weft::runtime
