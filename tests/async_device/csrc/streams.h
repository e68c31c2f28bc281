// Streams of the device: worker threads, each with a queue of tasks that it does in order. Nothing of torch in here.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace async_device {

using Clock = std::chrono::steady_clock;
using Task = std::function<void()>;

// Throws what made the device fail, if it has failed or the process is a forked child: then nothing works any more.
void raise_if_failed();

// From now on every call raises `why`, as after an error of a real device.
void fail(const std::string& why);

// An instant that a stream passes, once.
class Mark {
 public:
  void pass();
  bool passed() const { return passed_.load(); }
  void wait() const;  // blocks the calling thread
  Clock::time_point at() const { return at_; }  // of a mark that was passed

 private:
  Clock::time_point at_;
  std::atomic<bool> passed_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable has_passed_;
};

using MarkPtr = std::shared_ptr<Mark>;

class Stream {
 public:
  void name(std::string name) { name_ = std::move(name); }
  void add(Task task);  // blocks the caller while the queue is full
  MarkPtr mark();  // one that the stream passes when all that it holds by now is done
  void wait_for(const MarkPtr& mark);  // what is added from now on waits for `mark`; the caller does not
  bool idle() const;
  void synchronize() const;  // blocks until all that was added before this call is done

  // A capture: until it ends, what is added is kept instead of done.
  void begin_capture();
  std::deque<Task> end_capture();
  bool capturing() const;

 private:
  void work();

  std::string name_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Task> waiting_;
  std::unique_ptr<std::deque<Task>> captured_;
  int64_t added_ = 0;
  int64_t done_ = 0;
};

constexpr int kPool = 32;  // streams of each priority, given out in turn, as CUDA's

class Device {
 public:
  explicit Device(int index);
  Stream& stream(int64_t id);
  int64_t next_of_pool(bool high_priority);
  bool idle() const;
  void synchronize() const;

  std::atomic<bool> used{false};  // whether it has a context: memory, or work in a stream

 private:
  std::array<Stream, 1 + 2 * kPool> streams_;  // the default stream, then both pools
  std::array<std::atomic<unsigned>, 2> given_{};
};

int device_count();  // ASYNC_DEVICE_COUNT, 2 by default
Device& device(int index);
void set_queue_capacity(int64_t tasks);  // of every stream; 1024 at first

}  // namespace async_device
