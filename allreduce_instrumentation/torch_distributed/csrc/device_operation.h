/* An operation that a backend queues in the streams of a device, and its rows: see DeviceOperation in _operations.py. */
#pragma once

#include <mutex>

#include <ATen/core/ivalue.h>
#include <c10/core/StreamGuard.h>

#include "operation.h"
#include "stream_interval.h"

namespace timing {

/* A stream of a device in which there is nothing but waiting and marks. */
inline c10::Stream waiting_stream(const c10::Device& device) {
  struct OfDevice {
    std::once_flag once;
    std::optional<c10::Stream> stream;
  };
  static std::array<OfDevice, std::numeric_limits<c10::DeviceIndex>::max() + 1> all;
  OfDevice& found = all.at(static_cast<size_t>(device.index()));
  std::call_once(found.once, [&] { found.stream = c10::impl::VirtualGuardImpl(device.type()).getNewStream(device, -1); });
  return *found.stream;
}

class DeviceOperation {
 public:
  /* row: what is known of it. interval: has begun. goes_on: whether it is in the background. */
  DeviceOperation(RecorderPtr recorder, const Slot& row, StreamInterval interval, bool goes_on)
      : recorder_(std::move(recorder)),
        row_(row),
        interval_(std::move(interval)),
        listed_(*recorder_, row, true, RING_KEPT_OPEN),
        goes_on_(goes_on) {}

  const Recorder& recorder() const { return *recorder_; }
  bool goes_on() const { return goes_on_; }

  /* Marks the end in the current stream; the first call writes the row, on any thread. */
  void end_now(const std::exception_ptr& failure) {
    if (!listed_.take())
      return;
    interval_.end();
    if (failure)
      row_.names[STATUS] = recorder_->status_of(failure);
    interval_.put(recorder_->ring(), row_, goes_on_);
  }

  /* Ends it without a number, as its call raised. */
  void refuse(const std::exception_ptr& failure) {
    row_.has &= ~HAS(SEQ);
    row_.numbers[SEQ] = 0;
    end_now(failure);
  }

  /* Writes the row as unresolved, unless it is written: the end cannot be seen any more. */
  void lose() {
    if (!listed_.take())
      return;
    Slot row = row_;
    row.names[CLOCK] = recorder_->host;
    row.names[STATUS] = recorder_->unresolved;
    ring_put(recorder_->ring(), &row);
  }

  /* Ends it where a future is complete. One of NCCL is at once, and holds events: for these a stream of our own waits.
   * torch would call back in one of its 32 shared streams, which would wait. */
  void end_where_complete(c10::ivalue::Future& future) {
    if (interval_.is_lost())
      return end_now(nullptr);
    std::exception_ptr failure;
    c10::StreamGuard guard(waiting_stream(interval_.device()));
    try {
      future.waitAndThrow();
    } catch (...) {
      failure = std::current_exception();
    }
    end_now(failure);
  }

  /* Calls what makes the current stream wait for the operation. The first wait has a row. */
  template <class Wait>
  bool wait(const Wait& wait) {
    if (!goes_on_ || is_waited_.exchange(true))
      return wait_and_end(wait);
    return blocked([&] { return wait_and_end(wait); });
  }

  /* Makes the calls of `wait`, with a row WAIT of the current stream. */
  template <class Wait>
  bool blocked(const Wait& wait) const {
    StreamInterval interval(current_stream(interval_.device()));
    if (!interval)
      return wait();
    Slot row = row_;
    row.names[OPERATION] = recorder_->wait;
    row.names[THREAD] = recorder_->thread();
    row.names[STATUS] = recorder_->ok;
    row.start_ns = perf_counter_ns();
    interval.begin();
    Listed listed(*recorder_, row, true, 0);
    std::exception_ptr failure;
    bool result = false;
    try {
      result = wait();
    } catch (...) {
      failure = std::current_exception();
      row.names[STATUS] = recorder_->status_of(failure);
    }
    if (listed.take()) { /* else the logger was closed */
      interval.end();
      interval.put(recorder_->ring(), row, false);
    }
    if (failure)
      std::rethrow_exception(failure);
    return result;
  }

 private:
  template <class Wait>
  bool wait_and_end(const Wait& wait) {
    bool result;
    try {
      result = wait();
    } catch (...) {
      end_now(std::current_exception());
      throw;
    }
    end_now(nullptr);
    return result;
  }

  RecorderPtr recorder_;
  Slot row_;
  StreamInterval interval_;
  Listed listed_;
  bool goes_on_;
  std::atomic<bool> is_waited_{false};
};

using DeviceOperationPtr = std::shared_ptr<DeviceOperation>;

}  // namespace timing
