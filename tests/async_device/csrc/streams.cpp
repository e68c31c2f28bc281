#include "streams.h"

#include <pthread.h>

#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

namespace async_device {

namespace {

std::atomic<const std::string*> failure{nullptr};
std::atomic<int64_t> capacity{1024};
const std::string kForked = "asyncdev error: a forked child cannot use the device of its parent";

// Threads do not survive a fork. Called once the device is used.
void watch_for_forks() {
  static const int watched = pthread_atfork(nullptr, nullptr, [] { failure = &kForked; });
  (void)watched;
}

}  // namespace

void raise_if_failed() {
  if (const std::string* why = failure) throw std::runtime_error(*why);
}

void fail(const std::string& why) {
  failure = new std::string("asyncdev error: " + why);  // for good, and read without a lock
}

void Mark::pass() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    at_ = Clock::now();
    passed_ = true;
  }
  has_passed_.notify_all();
}

void Mark::wait() const {
  std::unique_lock<std::mutex> lock(mutex_);
  has_passed_.wait(lock, [this] { return passed(); });
}

void Stream::add(Task task) {
  raise_if_failed();
  std::unique_lock<std::mutex> lock(mutex_);
  if (captured_) {
    captured_->push_back(std::move(task));
    return;
  }
  if (added_ == 0) {
    watch_for_forks();
    std::thread([this] { work(); }).detach();
  }
  changed_.wait(lock, [this] { return added_ - done_ < capacity; });
  waiting_.push_back(std::move(task));
  ++added_;
  changed_.notify_all();
}

void Stream::work() {
  pthread_setname_np(pthread_self(), name_.c_str());
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !waiting_.empty(); });
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      task();
    } catch (const std::exception& error) {
      fail(error.what());
    }
    task = nullptr;  // what it held is let go before it counts as done
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

MarkPtr Stream::mark() {
  auto mark = std::make_shared<Mark>();
  add([mark] { mark->pass(); });
  return mark;
}

void Stream::wait_for(const MarkPtr& mark) {
  add([mark] { mark->wait(); });
}

bool Stream::idle() const {
  raise_if_failed();
  std::lock_guard<std::mutex> lock(mutex_);
  return added_ == done_;
}

void Stream::synchronize() const {
  raise_if_failed();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (captured_) throw std::runtime_error("asyncdev error: a stream that is captured cannot be waited for");
    const int64_t last = added_;
    changed_.wait(lock, [&] { return done_ >= last; });
  }
  raise_if_failed();
}

void Stream::begin_capture() {
  std::lock_guard<std::mutex> lock(mutex_);
  captured_ = std::make_unique<std::deque<Task>>();
}

std::deque<Task> Stream::end_capture() {
  std::lock_guard<std::mutex> lock(mutex_);
  auto tasks = std::move(captured_);
  return tasks ? std::move(*tasks) : std::deque<Task>{};
}

bool Stream::capturing() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return captured_ != nullptr;
}

Device::Device(int index) {
  for (size_t id = 0; id < streams_.size(); ++id)
    streams_[id].name("asyncdev:" + std::to_string(index) + "/" + std::to_string(id));
}

Stream& Device::stream(int64_t id) {
  return streams_.at(static_cast<size_t>(id));
}

int64_t Device::next_of_pool(bool high_priority) {
  return 1 + (high_priority ? kPool : 0) + given_[high_priority]++ % kPool;
}

bool Device::idle() const {
  for (const Stream& stream : streams_)
    if (!stream.idle()) return false;
  return true;
}

void Device::synchronize() const {
  for (const Stream& stream : streams_) stream.synchronize();
}

int device_count() {
  static const char* said = std::getenv("ASYNC_DEVICE_COUNT");
  static const int count = said ? std::atoi(said) : 2;
  return count;
}

Device& device(int index) {
  // Never destroyed: workers may still run when the process ends.
  static const auto* devices = [] {
    auto* made = new std::vector<std::unique_ptr<Device>>;
    for (int i = 0; i < device_count(); ++i) made->push_back(std::make_unique<Device>(i));
    return made;
  }();
  return *devices->at(static_cast<size_t>(index));
}

void set_queue_capacity(int64_t tasks) {
  capacity = tasks;
}

}  // namespace async_device
