/* Handles on timed operations under way: those of the backend, but for waits and futures. */
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

inline void end_by(const DeviceOperationPtr& operation, c10::ivalue::Future& future) {
  if (future.completed())
    operation->end_where_complete(future);
  else
    future.addCallback([operation](c10::ivalue::Future&) { operation->end_now(nullptr); });
}

class TimedWork : public c10d::Work {
 public:
  TimedWork(c10::intrusive_ptr<c10d::Work> untimed, bool has_future)
      : Work(-1, untimed->retrieveOpType()), untimed_(std::move(untimed)), has_future_(has_future) {}

  const c10::intrusive_ptr<c10d::Work>& untimed() const { return untimed_; }

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
  FuturePtr getFutureResult() override { return untimed_->getFutureResult(); }
  float getDuration() const override { return untimed_->getDuration(); }
  uint64_t getSequencenumber() const override { return untimed_->getSequencenumber(); }
#if TORCH_SINCE(14)
  std::chrono::milliseconds getTimeout() const override { return untimed_->getTimeout(); }
#endif
#if TORCH_SINCE(15)
  uint64_t getCompletionKey() const override { return untimed_->getCompletionKey(); }
#endif

 protected:
  c10::intrusive_ptr<c10d::Work> untimed_;
  std::atomic<bool> has_future_; /* whether a future tells the end, even if nobody waits */
};

/* On an operation that is timed by the clock of the host. */
class TimedHostWork : public TimedWork {
 public:
  TimedHostWork(c10::intrusive_ptr<c10d::Work> untimed, OperationPtr operation, bool has_future)
      : TimedWork(std::move(untimed), has_future), operation_(std::move(operation)) {}

  ~TimedHostWork() override {
    if (!has_future_)
      operation_->lose();
  }

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override {
    return operation_->wait(
        operation_->recorder().thread(), [&] { return untimed_->wait(timeout); },
        [&] { return untimed_->isCompleted(); });
  }

  FuturePtr getFuture() override {
    FuturePtr future = untimed_->getFuture();
    if (!has_future_.exchange(true))
      end_by(operation_, *future);
    note_use_in_backward(operation_, future);
    return future;
  }

 private:
  OperationPtr operation_;
};

/* On an operation that is timed in a stream. */
class TimedDeviceWork : public TimedWork {
 public:
  TimedDeviceWork(c10::intrusive_ptr<c10d::Work> untimed, DeviceOperationPtr operation, bool has_future)
      : TimedWork(std::move(untimed), has_future), operation_(std::move(operation)) {}

  ~TimedDeviceWork() override {
    if (!has_future_)
      operation_->lose();
  }

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override {
    return operation_->wait([&] { return untimed_->wait(timeout); });
  }

  FuturePtr getFuture() override {
    FuturePtr future = untimed_->getFuture();
    if (operation_->goes_on() && future) {
      if (!has_future_.exchange(true))
        end_by(operation_, *future);
      note_use_in_backward(operation_, future);
    }
    return future;
  }

 private:
  DeviceOperationPtr operation_;
};

/* A handle that Python made, for C++: it keeps the object of Python, whose methods its waits and futures are. */
class WorkOfPython : public c10d::Work {
 public:
  /* With the interpreter's lock. */
  explicit WorkOfPython(const py::object& made) : kept_(made), made_(made.cast<c10::intrusive_ptr<c10d::Work>>()) {}

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override { return made_->wait(timeout); }
  FuturePtr getFuture() override { return made_->getFuture(); }

 private:
  Kept kept_;
  c10::intrusive_ptr<c10d::Work> made_;
};

}  // namespace timing
