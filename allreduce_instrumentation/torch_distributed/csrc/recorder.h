/* The recorder that operations are recorded with, its names, and what keeps both. */
#pragma once

#include <array>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#define _Static_assert static_assert
extern "C" {
#include "clock.h"
#include "counting.h"
#include "recording.h"
}

namespace timing {

/* The statuses of failed operations, named after the exception that Python would see; the last one is for all others. */
enum Failure { RUNTIME, INDEX, VALUE, TYPE, NOT_IMPLEMENTED, BACKEND, STORE, NETWORK, QUEUE_EMPTY, DIST, MEMORY, N_FAILURES };
inline constexpr std::array<const char*, N_FAILURES> FAILURES = {
    "RuntimeError", "IndexError", "ValueError", "TypeError", "NotImplementedError", "DistBackendError", "DistStoreError",
    "DistNetworkError", "QueueEmptyError", "DistError", "OutOfMemoryError",
};

/* Lets go of an object of Python, on any thread. */
inline void let_go(PyObject* object) {
  if (!Py_IsInitialized())
    return;
  if (PyGILState_Check())
    Py_DECREF(object);
  else /* no thread of a backend ever waits for the interpreter; where its list is full, the object stays */
    Py_AddPendingCall([](void* object) { Py_DECREF(static_cast<PyObject*>(object)); return 0; }, object);
}

/* Keeps an object of Python, which any thread may let go of. */
class Kept {
 public:
  explicit Kept(const py::handle& object) : object_(object.inc_ref().ptr()) {}

  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  ~Kept() { let_go(object_); }

 private:
  PyObject* object_;
};

/* What records, and the names in its ring. */
class Recorder {
 public:
  /* With the interpreter's lock. Throws if the capsule is of another build, or has no room for names. */
  explicit Recorder(const py::object& recording) : kept_(recording) {
    py::capsule capsule = recording.attr("recording_in_c")();
    state_ = static_cast<Recording*>(PyCapsule_GetPointer(capsule.ptr(), RECORDING_CAPSULE));
    if (state_ == nullptr)
      throw py::error_already_set();
    if (state_->version != RECORDING_VERSION)
      throw std::runtime_error("the native core was built from other sources");
    ok = name("ok");
    blank = name("");
    host = name("host");
    device = name("device");
    wait = name("WAIT");
    unresolved = name("unresolved");
    for (int i = 0; i < N_FAILURES; i++)
      failures_[i] = name(std::string("error:") + FAILURES[i]);
  }

  const Recording& state() const { return *state_; }
  Ring* ring() const { return state_->ring; }
  UnderWayList* under_way() const { return state_->under_way; }

  /* With the interpreter's lock. */
  uint16_t name(const std::string& text) const {
    py::str held(text);
    int number = state_->name(state_->channel, held.ptr());
    if (number < 0)
      throw std::runtime_error("the ring has no room for further names");
    return static_cast<uint16_t>(number);
  }

  /* The name of the calling thread. Takes the interpreter's lock at a thread's first call, and at each one of a thread
   * that works for others. */
  uint16_t thread() const {
    static thread_local uint64_t of_recorder = 0;
    static thread_local uint16_t known = 0;
    if (of_recorder == state_->number)
      return known;
    py::gil_scoped_acquire lock;
    int stays = 0, found = state_->thread(state_->recorder, &stays);
    if (found < 0)
      return blank;
    if (stays) {
      of_recorder = state_->number;
      known = static_cast<uint16_t>(found);
    }
    return static_cast<uint16_t>(found);
  }

  /* The status of an operation that failed. Takes the interpreter's lock only if Python code raised it. */
  uint16_t status_of(const std::exception_ptr& failure) const {
    try {
      std::rethrow_exception(failure);
    } catch (py::error_already_set& error) {
      py::gil_scoped_acquire lock;
      return status_of_type(error.type());
    } catch (python_error& error) {
      py::gil_scoped_acquire lock;
      return status_of_type(py::reinterpret_borrow<py::object>(error.type));
    } catch (...) {
      return failures_[kind_of_current()];
    }
  }

  uint16_t ok, blank, host, device, wait, unresolved;

 private:
  uint16_t status_of_type(const py::handle& type) const {
    try {
      return name("error:" + py::cast<std::string>(type.attr("__name__")));
    } catch (std::exception&) {
      return failures_[RUNTIME];
    }
  }

  /* In the order in which torch translates exceptions. */
  static Failure kind_of_current() {
    try {
      throw;
    } catch (c10::IndexError&) {
      return INDEX;
    } catch (c10::ValueError&) {
      return VALUE;
    } catch (c10::TypeError&) {
      return TYPE;
    } catch (c10::NotImplementedError&) {
      return NOT_IMPLEMENTED;
    } catch (c10::OutOfMemoryError&) {
      return MEMORY;
    } catch (c10::DistBackendError&) {
      return BACKEND;
    } catch (c10::DistNetworkError&) {
      return NETWORK;
    } catch (c10::DistQueueEmptyError&) {
      return QUEUE_EMPTY;
    } catch (c10::DistStoreError&) {
      return STORE;
    } catch (c10::DistError&) {
      return DIST;
    } catch (torch::TypeError&) {
      return TYPE;
    } catch (std::invalid_argument&) {
      return VALUE;
    } catch (std::domain_error&) {
      return VALUE;
    } catch (std::length_error&) {
      return VALUE;
    } catch (std::out_of_range&) {
      return INDEX;
    } catch (...) {
      return RUNTIME;
    }
  }

  Kept kept_;
  Recording* state_;
  std::array<uint16_t, N_FAILURES> failures_{};
};

using RecorderPtr = std::shared_ptr<const Recorder>;

}  // namespace timing
