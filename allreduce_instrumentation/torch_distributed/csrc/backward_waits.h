/* The wait at the end of a backward pass for the operations that are still running: see _timed_work.py. */
#pragma once

#include <vector>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "device_operation.h"
#include "torch_versions.h"

#if TORCH_SINCE(13)
#include <torch/csrc/autograd/node.h>
#else
#include <torch/csrc/autograd/function.h>
#endif

namespace timing {

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

constexpr int NO_PASS = -1;

inline int current_pass() { return torch::autograd::get_current_graph_task_id(); }

/* One backward pass of the autograd engine, with the operations that it will wait for, in their order. */
struct BackwardPass {
  int number;
  std::vector<OperationPtr> on_host = {};
  std::vector<std::pair<DeviceOperationPtr, FuturePtr>> in_streams = {};

  void add(const OperationPtr& operation, const FuturePtr&) { on_host.push_back(operation); }
  void add(const DeviceOperationPtr& operation, const FuturePtr& future) {
    in_streams.emplace_back(operation, future);
  }
};

using BackwardPassPtr = std::shared_ptr<BackwardPass>;

struct PassesOfThread {
  BackwardPassPtr current, inner;
};

inline PassesOfThread& passes_of_this_thread() {
  static thread_local PassesOfThread passes;
  return passes;
}

/* Makes the current stream wait for a future between two events, just before DDP does the same. */
inline void make_stream_wait(const DeviceOperation& operation, c10::ivalue::Future& future) {
  try {
    operation.blocked([&] {
      future.waitAndThrow();
      return true;
    });
  } catch (...) { /* DDP's own wait raises the same */
  }
}

/* Begins the wait of the calling thread, or of its streams: all gradients are computed. */
inline void finish_pass(const BackwardPassPtr& pass) {
  PassesOfThread& passes = passes_of_this_thread();
  passes.current.reset();
  if (torch::autograd::get_current_node()) { /* a nested pass: the outer one goes on */
    passes.inner = pass;
    return;
  }
  int64_t now_ns = perf_counter_ns();
  OperationPtr behind;
  for (const OperationPtr& operation : pass->on_host) {
    operation->block_from(now_ns, behind);
    behind = operation;
  }
  for (const auto& [operation, future] : pass->in_streams)
    make_stream_wait(*operation, *future);
}

/* Notes that the future of an operation was taken: if a backward pass did it, that will wait for it at its end. */
template <class OfOperation>
void note_use_in_backward(const OfOperation& operation, const FuturePtr& future) {
  int number = current_pass();
  if (number == NO_PASS)
    return;
  PassesOfThread& passes = passes_of_this_thread();
  if (!passes.current || passes.current->number != number) {
    auto pass = std::make_shared<BackwardPass>(BackwardPass{number});
    torch::autograd::Engine::get_default_engine().queue_callback([pass] { finish_pass(pass); });
    if (passes.inner) {
      pass->on_host = std::move(passes.inner->on_host);
      pass->in_streams = std::move(passes.inner->in_streams);
    }
    passes.inner.reset();
    passes.current = pass;
  }
  passes.current->add(operation, future);
}

}  // namespace timing
