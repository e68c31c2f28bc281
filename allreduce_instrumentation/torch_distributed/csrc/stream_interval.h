/* Intervals between two events in a stream of a device: see timing_logger/recording/device, where they are resolved. */
#pragma once

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/Event.h>
#include <torch/csrc/Stream.h>

#include "recorder.h"
#include "torch_versions.h"

namespace timing {

inline c10::Stream current_stream(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/* An interval of Python's that nobody else has, and its two events; it has none if it is lost. */
struct Reserved {
  PyObject* interval = nullptr;
  c10::Event *start = nullptr, *end = nullptr;
};

/* Intervals that Python made ahead for one stream. Any thread may take one, without a lock. */
class ReserveOfStream {
 public:
  explicit ReserveOfStream(const c10::Stream& stream) : stream_(stream) {}

  const c10::Stream& stream() const { return stream_; }

  /* Returns an interval, or none. Takes the interpreter's lock once in so many times as are made at once. */
  Reserved take(const py::object& reserve) {
    int place = claim(ready_);
    if (place < 0)
      return refill(reserve);
    Reserved taken = places_[place];
    free_.fetch_or(uint64_t{1} << place, std::memory_order_release);
    return taken;
  }

  /* Keeps an interval for a later block, and returns whether there is room for it. */
  bool keep(const Reserved& reserved) {
    int place = claim(free_);
    if (place < 0)
      return false;
    places_[place] = reserved;
    ready_.fetch_or(uint64_t{1} << place, std::memory_order_release);
    return true;
  }

 private:
  static int claim(std::atomic<uint64_t>& of) {
    uint64_t bits = of.load(std::memory_order_relaxed);
    while (bits && !of.compare_exchange_weak(bits, bits & (bits - 1), std::memory_order_acquire, std::memory_order_relaxed))
      ;
    return bits ? __builtin_ctzll(bits) : -1;
  }

  Reserved refill(const py::object& reserve) {
    py::gil_scoped_acquire lock;
    try {
      py::list made = reserve(wrapped());
      for (size_t i = 1; i < made.size(); i++) {
        Reserved further = reserved(made[i]);
        if (!keep(further)) /* another thread was as quick: its events go back to the pool */
          Py_DECREF(further.interval);
      }
      return made.empty() ? Reserved{} : reserved(made[0]);
    } catch (py::error_already_set&) { /* no run fails by its timing */
      return {};
    }
  }

  static Reserved reserved(const py::object& interval) {
    py::object events = interval.attr("_events");
    if (events.is_none())
      return {interval.inc_ref().ptr()};
    return {interval.inc_ref().ptr(), event(events, 0), event(events, 1)};
  }

  static c10::Event* event(const py::object& events, Py_ssize_t which) {
    return &reinterpret_cast<THPEvent*>(PyTuple_GET_ITEM(events.ptr(), which))->event;
  }

  py::object wrapped() const {
#if TORCH_SINCE(12)
    return py::reinterpret_steal<py::object>(THPStream_Wrap(stream_));
#else
    return py::none();
#endif
  }

  c10::Stream stream_;
  std::atomic<uint64_t> ready_{0}, free_{~uint64_t{0}};
  std::array<Reserved, 64> places_;
};

/* Those of all streams in which anything was timed. */
class Reserves {
 public:
  static Reserves& of_process() {
    static auto* all = new Reserves; /* never destroyed: threads of backends outlive what is */
    return *all;
  }

  /* With the interpreter's lock. reserve: makes intervals for a stream. */
  void make_by(const py::object& reserve) { reserve_ = reserve; }

  Reserved take(const c10::Stream& stream) {
    ReserveOfStream* of = of_stream(stream);
    return of == nullptr ? Reserved{} : of->take(reserve_);
  }

  /* Takes an interval back that is in no row, and returns whether there is room for it. */
  bool take_back(const c10::Stream& stream, const Reserved& reserved) {
    ReserveOfStream* of = of_stream(stream);
    return of != nullptr && of->keep(reserved);
  }

 private:
  ReserveOfStream* of_stream(const c10::Stream& stream) {
    for (auto& place : places_) {
      ReserveOfStream* of = place.load(std::memory_order_acquire);
      if (of == nullptr)
        of = begun(place, stream);
      if (of->stream() == stream)
        return of;
    }
    return nullptr;
  }

  static ReserveOfStream* begun(std::atomic<ReserveOfStream*>& place, const c10::Stream& stream) {
    auto made = std::make_unique<ReserveOfStream>(stream);
    ReserveOfStream* found = nullptr;
    return place.compare_exchange_strong(found, made.get()) ? made.release() : found;
  }

  py::object reserve_;
  std::array<std::atomic<ReserveOfStream*>, 64> places_{};
};

/* An interval that begins and ends in the stream that is its device's current one then. */
class StreamInterval {
 public:
  StreamInterval() = default;

  /* There is none while the stream is captured into a graph. */
  explicit StreamInterval(const c10::Stream& stream) : reserved_(Reserves::of_process().take(stream)), stream_(stream) {}

  StreamInterval(StreamInterval&& other) noexcept
      : reserved_(std::exchange(other.reserved_, {})),
        stream_(other.stream_),
        issued_ns_(other.issued_ns_),
        is_lost_(other.is_lost_) {}
  StreamInterval& operator=(StreamInterval&& other) noexcept {
    std::swap(reserved_, other.reserved_);
    stream_ = other.stream_;
    issued_ns_ = other.issued_ns_;
    is_lost_ = other.is_lost_;
    return *this;
  }

  ~StreamInterval() {
    if (reserved_.interval == nullptr)
      return;
    if (is_lost() || !Reserves::of_process().take_back(*stream_, reserved_))
      let_go(reserved_.interval);
  }

  explicit operator bool() const { return reserved_.interval != nullptr; }
  bool is_lost() const { return is_lost_ || reserved_.start == nullptr; }
  c10::Device device() const { return stream_->device(); }

  void begin() {
    issued_ns_ = perf_counter_ns();
    mark(reserved_.start, *stream_);
  }

  void end() {
    if (is_lost())
      return;
    c10::Stream stream = current_stream(device());
    if (IS_CAPTURING(stream))
      is_lost_ = true;
    else
      mark(reserved_.end, stream);
  }

  /* Puts a row with this interval, for the flush thread to resolve. in_background: the work was in another stream. */
  void put(Ring* ring, Slot row, bool in_background) {
    uint64_t position = ring_claim(ring);
    if (position == RING_FULL)
      return;
    row.start_ns = issued_ns_;
    row.end_ns = reinterpret_cast<int64_t>(std::exchange(reserved_.interval, nullptr));
    row.has = (row.has & ~HAS_END) | ELSEWHERE | ON_DEVICE;
    row.has |= (is_lost() ? NOT_MARKED : 0) | (in_background ? IN_BACKGROUND : 0);
    ring_fill(ring, position, &row);
  }

 private:
  void mark(c10::Event* event, const c10::Stream& stream) {
    if (is_lost())
      return;
    try {
      event->record(stream);
    } catch (...) {
      lose(std::current_exception());
    }
  }

  /* Has Python note what was raised: a device that failed is asked nothing any more. */
  void lose(const std::exception_ptr& failure) {
    is_lost_ = true;
    py::gil_scoped_acquire lock;
    torch::translate_exception_to_python(failure);
    py::error_already_set raised;
    try {
      py::handle(reserved_.interval).attr("lose")(raised.value());
    } catch (py::error_already_set&) { /* it was none of torch's: to be lost is enough */
    }
  }

  Reserved reserved_;
  std::optional<c10::Stream> stream_;
  int64_t issued_ns_ = 0;
  bool is_lost_ = false;
};

}  // namespace timing
