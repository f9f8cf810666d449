#include "frontend/recorder/slices/claims.h"

#include <atomic>

namespace weft::recorder {

static std::atomic<uint32_t> claims_ended = 0;
static uint32_t waiting = 0; // threads, under the recorder's lock
static uint32_t claims = 0;  // that live, likewise
static constinit thread_local uint32_t own_claims = 0; // of this thread

void end_claim() {
  ++claims_ended;
  if (waiting > 0) // else it would be a system call for each program
    claims_ended.notify_all();
}

void wait_for_a_claim() {
  // Still under the recorder's lock: the claim that we met has not ended yet.
  uint32_t seen = claims_ended;
  ++waiting;
  {
    RecorderMutex::Pause pause(recorder().mutex);
    claims_ended.wait(seen);
  }
  --waiting;
}

void wait_for_a_program(Location location) {
  if (own_claims > 0 && own_claims == claims)
    fail_at(location, ErrorKind::kState,
            "a function that is called while a program is compiled, such as a pass, asks for what "
            "the same program computes; it can compute other things");
  wait_for_a_claim();
}

Claim::Claim(Slice &slice)
    : slice_(&slice), held_(slice.outputs.begin(), slice.outputs.end()) {
  for (Value *temporary : slice.temporaries)
    held_.emplace_back(temporary);
  ++claims;
  ++own_claims;
  for (Node *node : slice.nodes) {
    node->claimed = true;
    for (Value *result : node->results)
      if (result)
        result->withdrawn = result->handles == 0;
  }
  for (size_t i = 0; i < slice.leaves.size(); ++i)
    if (slice.key.leaves[i].donatable)
      slice.leaves[i]->withdrawn = true;
}

Claim::~Claim() {
  if (!slice_)
    return;
  for (Node *node : slice_->nodes) {
    node->claimed = false;
    for (Value *result : node->results)
      if (result)
        result->withdrawn = false;
  }
  for (Value *leaf : slice_->leaves)
    leaf->withdrawn = false;
  end();
}

void Claim::succeed() {
  for (Value *output : slice_->outputs) {
    output->node->results[output->index] = nullptr;
    output->node = nullptr;
    output->withdrawn = false;
  }
  for (Node *node : slice_->left)
    node->stays = true;
  for (Node *node : slice_->nodes) {
    if (node->stays) {
      node->claimed = false;
      node->results[0]->withdrawn = false;
      continue;
    }
    for (Value *result : node->results)
      if (result)
        result->node = nullptr;
    erase_node(node);
  }
  end();
}

void Claim::end() {
  held_.clear();
  slice_ = nullptr;
  --claims;
  --own_claims;
  end_claim();
}

} // namespace weft::recorder
