// A collective layer: what carries bytes between the ranks of a job. Plain C, so that a layer is
// built with any compiler. Layers that were built for another minor version of this header work;
// weft_version.h says how.
//
// A layer brings a transport: it connects the ranks and moves messages between two of them. All
// else stands above it in Weft, once for all layers: the algorithms of the collectives, the order
// of sums, dtypes, groups and their numbers, the check that all ranks make the same call, timeouts,
// and errors. For then sums have the same bits over every layer, a fault reads the same on every
// layer, and a layer is short. What libraries have of collectives of their own adds in an order
// that depends on their algorithm, so that Weft could not say what the bits of a sum are.
//
// Memory of messages is the host's. A library that has collectives alone, on memory and streams of
// its devices (NCCL), brings the functions below enqueue() instead of post() and wait(). The order
// of its sums is its own.
#ifndef WEFT_RUNTIME_ABI_COLLECTIVE_H
#define WEFT_RUNTIME_ABI_COLLECTIVE_H

#include <stdint.h>

#include "runtime/abi/weft_version.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_COLLECTIVE_ABI_VERSION WEFT_VERSION(1, 1)

// What a layer connects. Weft's, and so are the strings: valid during connect() alone. `store` with
// its functions is valid until then, too.
typedef struct weft_collective_world {
  uint32_t struct_size; // sizeof(weft_collective_world) of the caller, which is Weft
  int32_t rank;         // of this process or thread, in [0, size)
  int32_t size;
  int64_t timeout_ms;  // connect() fails after it
  const char *session; // letters and digits, the same on all ranks and on those of no other job:
                       // for names of files and of shared memory
  const char *address; // a numeric address under which the other ranks reach this one

  // A few bytes under a name, for all ranks: where a rank listens, for instance. get() waits until
  // some rank has set the name, and gives at most `capacity` bytes and how many there are. NULL, or
  // what went wrong: valid until the thread's next call of either function.
  void *store;
  const char *(*set)(void *store, const char *name, const void *value, int64_t bytes);
  const char *(*get)(void *store, const char *name, void *value, int64_t capacity, int64_t *bytes);
} weft_collective_world;

// One message on its way. Weft's: it stands still from post() until wait() has said that it is done
// or abort() has returned, and so do its data.
typedef struct weft_collective_transfer {
  uint32_t struct_size; // sizeof(weft_collective_transfer) of the caller, which is Weft
  int32_t peer;         // the other rank, never this one
  int32_t is_send;      // else it is received
  uint64_t channel;     // messages of a channel between two ranks are taken in the order in which
                        // they were posted; those of different channels do not wait for each other
  void *data;           // not written where is_send
  int64_t bytes;        // more than 0, and what the peer posts for the same message
  void *layer;          // the layer's own; NULL before post()
} weft_collective_transfer;

enum {
  WEFT_TRANSFER_DONE = 0,
  WEFT_TRANSFER_LATE = 1,   // the time is over
  WEFT_TRANSFER_FAILED = 2, // the peer has gone, the message had another size, abort() was called
};

enum { // of weft_collective_call, as in Weft's own (call.h)
  WEFT_ALL_REDUCE = 0,
  WEFT_ALL_GATHER = 1,
  WEFT_REDUCE_SCATTER = 2,
  WEFT_ALL_TO_ALL = 3,
  WEFT_BROADCAST = 4,
  WEFT_SEND = 5,
  WEFT_RECEIVE = 6,
};
enum {
  WEFT_REDUCE_SUM = 0,
  WEFT_REDUCE_MEAN = 1, // of floating dtypes only
  WEFT_REDUCE_MIN = 2,
  WEFT_REDUCE_MAX = 3,
  WEFT_REDUCE_PRODUCT = 4,
};

// One collective on memory of a device, since 1.1. Weft has checked it: kinds, ranks and sizes are
// right, and it is not empty. A group may have one rank.
typedef struct weft_collective_call {
  uint32_t struct_size; // sizeof(weft_collective_call) of the caller, which is Weft
  int32_t kind, reduction;
  int32_t dtype; // WEFT_FLOAT32 and so on: weft_custom.h
  int32_t peer;  // of send, receive, broadcast: a rank of the group
  int64_t count; // elements of the input, or of one of its parts
  const void *input;
  void *output;
  void *stream;      // of the device, in whose order it runs
  void *group;       // what split() gave; NULL for all ranks
  int32_t size;      // ranks of the group
  const char *place; // the caller's line; may be empty
} weft_collective_call;

// Texts that functions return stay valid until the thread's next call of the layer. A function in
// C++ that throws has failed, with what the exception says; abort(), close() and leave() must not.
typedef struct weft_collective_layer {
  uint32_t struct_size; // sizeof(weft_collective_layer) of whoever registers it
  uint32_t version;     // WEFT_COLLECTIVE_ABI_VERSION, likewise
  const char *name;     // "mine"

  // Connects this rank with all others; all ranks call it. NULL and a connection, which is the
  // layer's until close(); or why not, by when nothing is left of it.
  const char *(*connect)(const weft_collective_world *world, void **connection);

  // post(), wait() and abort() are called from several threads at once; post() and wait() of one
  // channel from one thread at a time.

  // Begins a transfer and returns without waiting for the peer. NULL, or what went wrong: then the
  // transfer has not begun.
  const char *(*post)(void *connection, weft_collective_transfer *transfer);

  // Waits for the end of a transfer, `timeout_ms` at most, and takes back what post() made for it.
  // All transfers move on while one is waited for. After another result than DONE Weft calls
  // abort(), and `why` says more (NULL: nothing more to say).
  int32_t (*wait)(void *connection, weft_collective_transfer *transfer, int64_t timeout_ms,
                  const char **why);

  // Ends all transfers, those that are waited for and those to come, as FAILED. When it returns, no
  // memory of a transfer is read or written any more. The peers find out that this rank has gone.
  // From any thread, also more than once, also beside wait().
  void (*abort)(void *connection);

  // Frees the connection. No other function is under way, and none is called after it. What was
  // sent arrives.
  void (*close)(void *connection);

  // Since 1.1, may be NULL. For starters that do not say where ranks meet: gives all ranks what
  // rank 0 has at `data`, by a way of the layer's own, before there is a store or a connection. Of
  // `world` rank, size and timeout_ms alone are set. All ranks call it, with the same `bytes`.
  const char *(*meet)(const weft_collective_world *world, void *data, int64_t bytes);

  // Since 1.1, for layers of devices: all three, and post() and wait() are NULL.

  // Puts a collective on its stream and returns without waiting for other ranks' streams. NULL, or
  // why not: memory that is not the device's, a dtype that the library has not. From any thread.
  const char *(*enqueue)(void *connection, const weft_collective_call *call);
  // Ranks of a group that give the same color become a group of their own, by `rank`; none for
  // those that give a negative one. `group`: what they are split off, as in a call. All its ranks
  // call it. What it gives is the layer's until leave().
  const char *(*split)(void *connection, void *group, int32_t color, int32_t rank,
                       int64_t timeout_ms, void **made);
  // Ends a group that split() gave, after what was enqueued in it.
  void (*leave)(void *connection, void *group);
} weft_collective_layer;

// Makes a layer known to this process, for good; from any thread. The struct is copied, its name
// too. NULL, or why not: another layer of that name, another major version of this header, a
// missing function. The text is valid until the thread's next call.
const char *weft_register_collective_layer(const weft_collective_layer *layer);

// What a plugin of layers exports, under this name: it registers its layers with the function that
// it is given, and so needs no symbol of the program. NULL, or why it cannot.
typedef const char *(*weft_register_collective_layer_function)(const weft_collective_layer *layer);
const char *weft_collective_plugin(weft_register_collective_layer_function register_layer);

#ifdef __cplusplus
}
#endif
#endif // WEFT_RUNTIME_ABI_COLLECTIVE_H
