/* The names of the buckets of one DDP model, in the order of their reduction: see DdpBuckets in _layer_names.py. */
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "backward_waits.h"

namespace timing {

struct Bucket {
  uint16_t name;
  int64_t entries;
};

/* One layout, of a model that does not change it any more. One backward pass at a time reduces its buckets. */
class Buckets {
 public:
  explicit Buckets(std::vector<Bucket> buckets) : buckets_(std::move(buckets)) {}

  /* Returns the name of the bucket that comes next in a pass, or null if that has another number of entries: what
   * follows in the pass has no names then. */
  const uint16_t* next(int64_t entries, int pass) {
    size_t next = next_.load(std::memory_order_relaxed);
    if (pass_.exchange(pass, std::memory_order_relaxed) != pass && !fits(next, entries))
      next = 0; /* else it goes on where it was, after a nested pass */
    bool is_known = fits(next, entries);
    next_.store(is_known ? next + 1 : buckets_.size(), std::memory_order_relaxed);
    return is_known ? &buckets_[next].name : nullptr;
  }

 private:
  bool fits(size_t place, int64_t entries) const {
    return place < buckets_.size() && buckets_[place].entries == entries;
  }

  std::vector<Bucket> buckets_;
  std::atomic<size_t> next_{0};
  std::atomic<int> pass_{NO_PASS};
};

}  // namespace timing
