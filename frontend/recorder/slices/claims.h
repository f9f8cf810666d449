// Slices that are being compiled.
#pragma once

#include "frontend/recorder/slices/slice.h"

namespace weft::recorder {

// While it lives, the slice's values are withdrawn: other threads that need one of them wait for
// the claim to end, and views do not pick up what will be gone. A claim that does not succeed
// leaves everything as it was.
class Claim : Scope {
public:
  explicit Claim(Slice &slice);
  ~Claim();

  // The slice's outputs have their memory: they are leaves now, and its ops go.
  void succeed();

private:
  // Gives back what was held; what nobody else holds goes. Wakes who waits.
  void end();

  Slice *slice_;
  std::vector<ValueRef> held_; // what it computes
};

// Gives up the recorder's lock until some claim has ended. For threads that met claimed ops, or a
// program that is being compiled.
void wait_for_a_claim();
// The same where a program is being compiled. Throws Error (kState) where this thread compiles it
// and no other thread compiles any: what it calls meanwhile, a pass, asks for what it is part of.
void wait_for_a_program(Location location);
// Wakes those threads: ops that were withheld are there again, or gone. Under the recorder's lock.
void end_claim();

} // namespace weft::recorder
