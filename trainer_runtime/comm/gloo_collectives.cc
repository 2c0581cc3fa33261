#include "trainer_runtime/comm/gloo_collectives.h"

#include <algorithm>
#include <cstring>
#include <list>

#include "trainer_runtime/comm/add.h"
#include "trainer_runtime/comm/summation_order.h"

namespace muster::comm {
namespace {

// Long enough to hide a message's cost, short enough for the addition of one segment to run beside
// the transfer of the next and to stay in the second-level cache.
constexpr std::size_t kSegmentBytes = 256 << 10;
// Receives posted ahead, each with scratch of its own while it is to be added.
constexpr std::size_t kWindow = 4;
// Below this the root sends a broadcast to each rank itself.
constexpr std::size_t kDirectBroadcastBytesMax = 32 << 10;

// One message of the ring, as its receiver sees it; offsets are in elements.
struct RingItem {
  std::size_t begin = 0, count = 0;
  bool is_added = false;    // else it is complete and stored
  bool is_sent_on = false;  // to the right, once added or stored
};

void AppendChunk(std::size_t count, int size, int chunk, RingItem item,
                 std::vector<RingItem>* items) {
  constexpr std::size_t kStride = kSegmentBytes / sizeof(float);
  chunk = ((chunk % size) + size) % size;
  const std::size_t end = ChunkBegin(count, size, chunk + 1);
  for (item.begin = ChunkBegin(count, size, chunk); item.begin < end; item.begin += kStride) {
    item.count = std::min(kStride, end - item.begin);
    items->push_back(item);
  }
}

// In step s of 2 * (size - 1), chunk (rank - s) goes right while chunk (rank - s - 1) comes from
// the left: so what is sent in a step is what came in the step before. In the first size - 1 steps
// what comes is added to, later it is complete.
std::vector<RingItem> ReceivedItems(std::size_t count, int rank, int size) {
  std::vector<RingItem> items;
  for (int step = 0; step < 2 * (size - 1); ++step) {
    RingItem item;
    item.is_added = step < size - 1;
    item.is_sent_on = step + 1 < 2 * (size - 1);
    AppendChunk(count, size, rank - step - 1, item, &items);
  }
  return items;
}

std::vector<RingItem> FirstSentItems(std::size_t count, int rank, int size) {
  std::vector<RingItem> items;
  AppendChunk(count, size, rank, {}, &items);
  return items;
}

}  // namespace

Status GlooCollectives::AllReduce(std::span<float> values) {
  if (mesh_.size() == 1 || values.empty()) return OkStatus();
  return AddsDirectly(values.size(), mesh_.size()) ? DirectAllReduce(values)
                                                   : RingAllReduce(values);
}

Status GlooCollectives::DirectAllReduce(std::span<float> values) {
  const std::size_t count = values.size();
  const auto size = static_cast<std::size_t>(mesh_.size());
  if (scratch_.size() < count * size) scratch_.resize(count * size);
  MUSTER_RETURN_IF_ERROR(AllGather(
      std::as_bytes(values), std::as_writable_bytes(std::span(scratch_.data(), count * size))));
  Add(values.data(), scratch_.data(), scratch_.data() + count, count);
  for (std::size_t rank = 2; rank < size; ++rank) {
    Add(values.data(), values.data(), scratch_.data() + rank * count, count);
  }
  return OkStatus();
}

Status GlooCollectives::RingAllReduce(std::span<float> values) {
  const int rank = mesh_.rank(), size = mesh_.size();
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  constexpr std::size_t kScratch = kWindow * kSegmentBytes / sizeof(float);
  if (scratch_.size() < kScratch) scratch_.resize(kScratch);
  const std::vector<RingItem> items = ReceivedItems(values.size(), rank, size);
  const std::uint64_t slot = mesh_.NextSlot();
  // Both ends number the messages of a link in the order of its sender.
  std::uint64_t sent = 0;
  GlooMesh::Area data(mesh_, values.data(), values.size_bytes());
  GlooMesh::Area scratch(mesh_, scratch_.data(), kScratch * sizeof(float));

  const auto post_receive = [&](std::size_t k) -> Status {
    if (k >= items.size()) return OkStatus();
    const std::size_t offset =
        items[k].is_added ? k % kWindow * kSegmentBytes : items[k].begin * sizeof(float);
    return (items[k].is_added ? scratch : data)
        .Receive(left, slot + k, offset, items[k].count * sizeof(float));
  };
  const auto send = [&](const RingItem& item) {
    return data.Send(right, slot + sent++, item.begin * sizeof(float), item.count * sizeof(float));
  };

  for (std::size_t k = 0; k < kWindow; ++k) MUSTER_RETURN_IF_ERROR(post_receive(k));
  for (const RingItem& item : FirstSentItems(values.size(), rank, size)) {
    MUSTER_RETURN_IF_ERROR(send(item));
  }
  for (std::size_t k = 0; k < items.size(); ++k) {
    const RingItem& item = items[k];
    MUSTER_RETURN_IF_ERROR((item.is_added ? scratch : data).WaitReceive(left));
    if (item.is_added) {
      float* own = values.data() + item.begin;
      Add(own, scratch_.data() + k % kWindow * (kSegmentBytes / sizeof(float)), own, item.count);
    }
    if (item.is_sent_on) MUSTER_RETURN_IF_ERROR(send(item));
    MUSTER_RETURN_IF_ERROR(post_receive(k + kWindow));
  }
  for (; sent > 0; --sent) MUSTER_RETURN_IF_ERROR(data.WaitSend(right));
  return OkStatus();
}

Status GlooCollectives::Broadcast(std::span<std::byte> bytes, int root) {
  const int rank = mesh_.rank(), size = mesh_.size();
  if (size == 1 || bytes.empty()) return OkStatus();
  const std::uint64_t slot = mesh_.NextSlot();
  GlooMesh::Area data(mesh_, bytes.data(), bytes.size());
  if (bytes.size() <= kDirectBroadcastBytesMax) {
    if (rank != root) {
      MUSTER_RETURN_IF_ERROR(data.Receive(root, slot, 0, bytes.size()));
      return data.WaitReceive(root);
    }
    for (int peer = 0; peer < size; ++peer) {
      if (peer != root) MUSTER_RETURN_IF_ERROR(data.Send(peer, slot, 0, bytes.size()));
    }
    for (int peer = 0; peer < size; ++peer) {
      if (peer != root) MUSTER_RETURN_IF_ERROR(data.WaitSend(peer));
    }
    return OkStatus();
  }
  // A chain from the root on: each segment is passed on while the next one comes.
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  const std::size_t segments = (bytes.size() + kSegmentBytes - 1) / kSegmentBytes;
  const auto length = [&](std::size_t k) {
    return std::min(kSegmentBytes, bytes.size() - k * kSegmentBytes);
  };
  const auto post_receive = [&](std::size_t k) -> Status {
    if (k >= segments || rank == root) return OkStatus();
    return data.Receive(left, slot + k, k * kSegmentBytes, length(k));
  };
  for (std::size_t k = 0; k < kWindow; ++k) MUSTER_RETURN_IF_ERROR(post_receive(k));
  for (std::size_t k = 0; k < segments; ++k) {
    if (rank != root) {
      MUSTER_RETURN_IF_ERROR(data.WaitReceive(left));
      MUSTER_RETURN_IF_ERROR(post_receive(k + kWindow));
    }
    if (right == root) continue;
    MUSTER_RETURN_IF_ERROR(data.Send(right, slot + k, k * kSegmentBytes, length(k)));
    // The root has no one before it who would hold it back.
    if (rank == root && k >= kWindow) MUSTER_RETURN_IF_ERROR(data.WaitSend(right));
  }
  if (right == root) return OkStatus();
  const std::size_t waited = rank == root && segments > kWindow ? segments - kWindow : 0;
  for (std::size_t k = waited; k < segments; ++k) {
    MUSTER_RETURN_IF_ERROR(data.WaitSend(right));
  }
  return OkStatus();
}

Status GlooCollectives::AllGather(std::span<const std::byte> own, std::span<std::byte> all) {
  const int rank = mesh_.rank(), size = mesh_.size();
  const std::size_t each = own.size();
  std::byte* place = all.data() + static_cast<std::size_t>(rank) * each;
  if (each == 0) return OkStatus();
  if (place != own.data()) std::memmove(place, own.data(), each);
  if (size == 1) return OkStatus();
  const std::uint64_t slot = mesh_.NextSlot();
  GlooMesh::Area data(mesh_, all.data(), all.size());
  // Starting with the right neighbour spreads the load; completions of several peers mix, but all
  // are waited for.
  for (int i = 1; i < size; ++i) {
    const int peer = (rank + size - i) % size;
    MUSTER_RETURN_IF_ERROR(data.Receive(peer, slot, static_cast<std::size_t>(peer) * each, each));
  }
  for (int i = 1; i < size; ++i) {
    MUSTER_RETURN_IF_ERROR(
        data.Send((rank + i) % size, slot, static_cast<std::size_t>(rank) * each, each));
  }
  for (int i = 1; i < size; ++i) MUSTER_RETURN_IF_ERROR(data.WaitReceive((rank + size - i) % size));
  for (int i = 1; i < size; ++i) MUSTER_RETURN_IF_ERROR(data.WaitSend((rank + i) % size));
  return OkStatus();
}

Status GlooCollectives::Barrier() {
  std::vector<std::byte> all(static_cast<std::size_t>(mesh_.size()));
  const std::byte own{1};
  return AllGather(std::span(&own, 1), all);
}

}  // namespace muster::comm
