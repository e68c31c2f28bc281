/* The wait at the end of a backward pass for the operations that are still running: see _backward_waits.py. */
#pragma once

#include <vector>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "operation.h"
#include "torch_versions.h"

#if TORCH_SINCE(13)
#include <torch/csrc/autograd/node.h>
#else
#include <torch/csrc/autograd/function.h>
#endif

namespace timing {

constexpr int NO_PASS = -1;

inline int current_pass() { return torch::autograd::get_current_graph_task_id(); }

struct BackwardPass {
  int number;
  std::vector<OperationPtr> operations; /* in the order in which the pass will wait for them */
};

using BackwardPassPtr = std::shared_ptr<BackwardPass>;

struct PassesOfThread {
  BackwardPassPtr current, inner;
};

inline PassesOfThread& passes_of_this_thread() {
  static thread_local PassesOfThread passes;
  return passes;
}

/* Begins the wait of the calling thread: all gradients are computed. */
inline void finish_pass(const BackwardPassPtr& pass) {
  PassesOfThread& passes = passes_of_this_thread();
  passes.current.reset();
  if (torch::autograd::get_current_node()) { /* a nested pass: the outer one goes on */
    passes.inner = pass;
    return;
  }
  int64_t now_ns = perf_counter_ns();
  OperationPtr behind;
  for (const OperationPtr& operation : pass->operations) {
    operation->block_from(now_ns, behind);
    behind = operation;
  }
}

/* Notes that the future of an operation was taken: if a backward pass did it, that will wait for it at its end. */
inline void note_use_in_backward(const OperationPtr& operation) {
  int number = current_pass();
  if (number == NO_PASS)
    return;
  PassesOfThread& passes = passes_of_this_thread();
  if (!passes.current || passes.current->number != number) {
    auto pass = std::make_shared<BackwardPass>(BackwardPass{number, {}});
    torch::autograd::Engine::get_default_engine().queue_callback([pass] { finish_pass(pass); });
    if (passes.inner)
      pass->operations = std::move(passes.inner->operations);
    passes.inner.reset();
    passes.current = pass;
  }
  passes.current->operations.push_back(operation);
}

}  // namespace timing
