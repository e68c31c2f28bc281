/* The handle on a timed operation under way: that of the backend, but for waits and futures. */
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "backward_waits.h"

namespace timing {

/* Has an operation end by a future; does not wait, and takes no lock of the interpreter. */
inline void end_by(const OperationPtr& operation, c10::ivalue::Future& future) {
  future.addCallback([operation](c10::ivalue::Future& done) {
    operation->end_now(done.hasError() ? done.exception_ptr() : nullptr);
  });
}

class TimedWork : public c10d::Work {
 public:
  TimedWork(c10::intrusive_ptr<c10d::Work> untimed, OperationPtr operation, bool has_future)
      : Work(-1, untimed->retrieveOpType()),
        untimed_(std::move(untimed)),
        operation_(std::move(operation)),
        has_future_(has_future) {}

  ~TimedWork() override {
    if (!has_future_)
      operation_->lose();
  }

  const c10::intrusive_ptr<c10d::Work>& untimed() const { return untimed_; }

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override {
    return operation_->wait(
        operation_->recorder().thread(), [&] { return untimed_->wait(timeout); },
        [&] { return untimed_->isCompleted(); });
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = untimed_->getFuture();
    if (!has_future_) {
      has_future_ = true;
      end_by(operation_, *future);
    }
    note_use_in_backward(operation_);
    return future;
  }

  bool isCompleted() override { return untimed_->isCompleted(); }
  bool isSuccess() const override { return untimed_->isSuccess(); }
  std::exception_ptr exception() const override { return untimed_->exception(); }
  int sourceRank() const override { return untimed_->sourceRank(); }
  std::vector<at::Tensor> result() override { return untimed_->result(); }
  void synchronize() override { untimed_->synchronize(); }
#if TORCH_SINCE(9)
  void blockCurrentStream() override { untimed_->blockCurrentStream(); }
#endif
  void abort() override { untimed_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override { return untimed_->getFutureResult(); }
  float getDuration() const override { return untimed_->getDuration(); }
  uint64_t getSequencenumber() const override { return untimed_->getSequencenumber(); }
#if TORCH_SINCE(14)
  std::chrono::milliseconds getTimeout() const override { return untimed_->getTimeout(); }
#endif
#if TORCH_SINCE(15)
  uint64_t getCompletionKey() const override { return untimed_->getCompletionKey(); }
#endif

 private:
  c10::intrusive_ptr<c10d::Work> untimed_;
  OperationPtr operation_;
  std::atomic<bool> has_future_;
};

/* A handle that Python made, for C++: it keeps the object of Python, whose methods its waits and futures are. */
class WorkOfPython : public c10d::Work {
 public:
  /* With the interpreter's lock. */
  explicit WorkOfPython(const py::object& made) : kept_(made), made_(made.cast<c10::intrusive_ptr<c10d::Work>>()) {}

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override { return made_->wait(timeout); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return made_->getFuture(); }

 private:
  Kept kept_;
  c10::intrusive_ptr<c10d::Work> made_;
};

}  // namespace timing
