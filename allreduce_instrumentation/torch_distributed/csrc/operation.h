/* An operation that goes on in the background, and its rows. */
#pragma once

#include <algorithm>
#include <atomic>

#include "recorder.h"

namespace timing {

/* An entry in the list of what is under way, and in the ring's. Where the list is full there is none: it is not told
 * of while it goes on then. */
class Listed {
 public:
  Listed(const Recorder& recorder, const Slot& call, bool has_row, int n_kept) : Listed(recorder) {
    if (entry_ != nullptr)
      turn_ = under_way_begin(entry_, &call, ring_enter(recorder.ring(), &call, n_kept), nullptr, 0, !has_row);
  }

  /* A wait for another entry. */
  Listed(const Recorder& recorder, const Slot& call, const Listed& of) : Listed(recorder) {
    if (entry_ != nullptr)
      turn_ = under_way_begin(entry_, &call, nullptr, of.entry_, of.turn_, false);
  }

  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

  /* Whether the caller is the one to write the row. */
  bool take() {
    if (entry_ == nullptr)
      return !is_taken_.exchange(true);
    if (!under_way_take(entry_, turn_))
      return false;
    if (entry_->listed != nullptr)
      ring_leave(recorder_->ring(), entry_->listed);
    under_way_free(recorder_->under_way(), entry_);
    return true;
  }

 private:
  explicit Listed(const Recorder& recorder) : recorder_(&recorder), entry_(under_way_claim(recorder.under_way())) {}

  const Recorder* recorder_;
  UnderWay* entry_;
  uint64_t turn_ = 0;
  std::atomic<bool> is_taken_{false}; /* if there is no entry */
};

class Operation {
 public:
  Operation(RecorderPtr recorder, const Slot& call)
      : recorder_(std::move(recorder)), row_(call), listed_(*recorder_, call, true, RING_KEPT_OPEN) {}

  const Recorder& recorder() const { return *recorder_; }

  /* Notes that the operation ended; the first call writes the row, on any thread. */
  void end(int64_t end_ns, uint16_t status) {
    if (!listed_.take())
      return;
    put(row_.names[OPERATION], row_.start_ns, end_ns, status);
    ended_ns_.store(end_ns);
    write_wait();
  }

  void end_now(const std::exception_ptr& failure) {
    int64_t now_ns = perf_counter_ns(); /* first, as what follows takes time */
    end(now_ns, failure ? recorder_->status_of(failure) : recorder_->ok);
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
    row.names[STATUS] = recorder_->unresolved;
    ring_put(recorder_->ring(), &row);
  }

  /* Calls what blocks the calling thread until the operation has ended. `is_over` tells whether it has, where that
   * failed. Of several waits, those up to the first that succeeds have a row. */
  template <class Wait, class IsOver>
  bool wait(uint16_t thread, const Wait& wait, const IsOver& is_over) {
    Slot row = row_;
    row.names[OPERATION] = recorder_->wait;
    row.names[THREAD] = thread;
    row.start_ns = perf_counter_ns();
    Listed listed(*recorder_, row, listed_);
    bool result = false;
    std::exception_ptr failure;
    try {
      result = wait();
    } catch (...) {
      failure = std::current_exception();
    }
    if (!failure || is_over()) /* else only this wait failed */
      end_now(failure);
    row.end_ns = perf_counter_ns();
    row.has |= HAS_END;
    if (failure)
      row.names[STATUS] = recorder_->status_of(failure);
    bool is_to_be_written = listed.take(); /* else the logger was closed, and the row is written */
    if (is_to_be_written && !is_waited_.load()) {
      is_waited_.store(!failure);
      ring_put(recorder_->ring(), &row);
    }
    if (failure)
      std::rethrow_exception(failure);
    return result;
  }

  /* Has a row WAIT written when the operation has ended, and then those in `behind`: its thread is blocked until then. */
  void block_from(int64_t instant_ns, std::shared_ptr<const Operation> behind) {
    behind_ = std::move(behind);
    blocked_from_ns_.store(instant_ns);
    write_wait();
  }

 private:
  void put(uint16_t operation, int64_t start_ns, int64_t end_ns, uint16_t status) const {
    Slot row = row_;
    row.start_ns = start_ns;
    row.end_ns = std::max(start_ns, end_ns);
    row.has |= HAS_END;
    row.names[OPERATION] = operation;
    row.names[STATUS] = status;
    ring_put(recorder_->ring(), &row);
  }

  /* Whoever of end() and block_from() comes last finds both instants, and one of them takes the first. */
  void write_wait() {
    int64_t ended_ns = ended_ns_.load();
    if (ended_ns == 0 || blocked_from_ns_.load() == 0)
      return;
    int64_t start_ns = blocked_from_ns_.exchange(0);
    if (start_ns == 0)
      return;
    for (const Operation* behind = behind_.get(); behind != nullptr; behind = behind->behind_.get()) {
      int64_t behinds_ns = behind->ended_ns_.load();
      start_ns = std::max(start_ns, std::min(behinds_ns ? behinds_ns : ended_ns, ended_ns));
    }
    put(recorder_->wait, start_ns, ended_ns, recorder_->ok);
  }

  RecorderPtr recorder_;
  Slot row_;
  Listed listed_;
  std::atomic<int64_t> ended_ns_{0}, blocked_from_ns_{0};
  std::atomic<bool> is_waited_{false};
  std::shared_ptr<const Operation> behind_;
};

using OperationPtr = std::shared_ptr<Operation>;

}  // namespace timing
