// Additions through the server: what arrives is what the definition says.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/fingerprint.h"
#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

using Row = std::vector<float>;

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

Row FloatsOf(const std::string& bytes) {
  Row values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

void SetF32(v1::Tensor* tensor, const std::vector<int64_t>& shape, const Row& values) {
  tensor->set_dtype(v1::DTYPE_F32);
  for (const int64_t extent : shape) tensor->add_shape(extent);
  tensor->set_data(BytesOf(values));
}

// [2, tokens, 4] of distinct numbers.
Row Input(int64_t tokens) {
  Row x(static_cast<size_t>(2 * tokens * 4));
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.125f * static_cast<float>(i) - 3;
  return x;
}

v1::ApplyItem Item(int64_t tokens, const std::function<void(v1::ApplyItem*)>& change = {}) {
  v1::ApplyItem item;
  item.mutable_spec()->mutable_sinusoidal()->set_dim(4);
  item.mutable_add();
  SetF32(item.add_tensors(), {2, tokens, 4}, Input(tokens));
  if (change) change(&item);
  return item;
}

v1::ApplyResponse Apply(TestServer& server, const std::vector<v1::ApplyItem>& items) {
  v1::ApplyRequest request;
  for (const auto& item : items) *request.add_items() = item;
  grpc::ClientContext context;
  v1::ApplyResponse response;
  const grpc::Status status = server.position().Apply(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  for (const auto& result : response.results()) EXPECT_EQ(result.status().code(), 0) << result.status().message();
  return response;
}

Row ApplyOne(TestServer& server, const v1::ApplyItem& item) {
  const v1::ApplyResponse response = Apply(server, {item});
  return FloatsOf(response.results(0).tensors(0).data());
}

// Rows of the table as Precompute gives them.
Row Table(TestServer& server, int64_t rows, double base = 10000) {
  v1::PrecomputeRequest request;
  v1::PrecomputeItem* item = request.add_items();
  item->mutable_spec()->mutable_sinusoidal()->set_dim(4);
  item->mutable_spec()->mutable_sinusoidal()->set_base(base);
  item->mutable_table()->mutable_positions()->mutable_range()->set_count(rows);
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  EXPECT_TRUE(server.position().Precompute(&context, request, &response).ok());
  return FloatsOf(response.results(0).table().data());
}

void SetMask(v1::ApplyItem* item, const std::string& bits, int64_t tokens) {
  v1::Tensor* mask = item->mutable_positions()->mutable_mask()->mutable_mask();
  mask->set_dtype(v1::DTYPE_BOOL);
  mask->add_shape(2);
  mask->add_shape(tokens);
  mask->set_data(bits);
}

TEST(AddTest, AddsTheRowsOfTheTable) {
  TestServer server;
  const Row table = Table(server, 3), x = Input(3);
  Row wanted = x, scaled = x;
  for (size_t i = 0; i < x.size(); ++i) {
    wanted[i] = x[i] + table[i % 12];
    scaled[i] = std::fma(2.0f, x[i], table[i % 12]);  // √4 = 2
  }
  EXPECT_EQ(ApplyOne(server, Item(3)), wanted);
  EXPECT_EQ(ApplyOne(server, Item(3, [](auto* item) { item->mutable_add()->set_scale_sqrt_dim(true); })), scaled);
}

TEST(AddTest, LayoutsAndStridesAgree) {
  TestServer server;
  const int64_t tokens = 5;
  const Row bsd = ApplyOne(server, Item(tokens)), x = Input(tokens);
  // Sequence first.
  Row swapped(x.size());
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 0; t < tokens; ++t) {
      std::copy_n(x.begin() + (b * tokens + t) * 4, 4, swapped.begin() + (t * 2 + b) * 4);
    }
  }
  const Row sbd = ApplyOne(server, Item(tokens, [&](auto* item) {
                             item->set_layout(v1::LAYOUT_SBD);
                             item->clear_tensors();
                             SetF32(item->add_tensors(), {tokens, 2, 4}, swapped);
                           }));
  // Batch first, in memory that has the sequence first and gaps of one.
  Row gaps(static_cast<size_t>(tokens * 2 * 5), 77.0f);
  for (int64_t v = 0; v < tokens * 2; ++v) std::copy_n(swapped.begin() + v * 4, 4, gaps.begin() + v * 5);
  const Row strided = ApplyOne(server, Item(tokens, [&](auto* item) {
                                 item->clear_tensors();
                                 SetF32(item->add_tensors(), {2, tokens, 4}, gaps);
                                 for (const int64_t stride : {5, 10, 1}) item->mutable_tensors(0)->add_strides(stride);
                               }));
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t c = 0; c < 4; ++c) {
        const float wanted = bsd[static_cast<size_t>((b * tokens + t) * 4 + c)];
        EXPECT_EQ(sbd[static_cast<size_t>((t * 2 + b) * 4 + c)], wanted);
        EXPECT_EQ(strided[static_cast<size_t>((t * 2 + b) * 5 + c)], wanted);
      }
    }
  }
  EXPECT_EQ(strided[4], 77);  // what no element covers comes back as it was
  // A pack of both batch rows.
  EXPECT_EQ(ApplyOne(server, Item(tokens,
                                  [&](auto* item) {
                                    item->set_layout(v1::LAYOUT_TD);
                                    item->clear_tensors();
                                    SetF32(item->add_tensors(), {2 * tokens, 4}, x);
                                    for (const int64_t end : {0, 5, 10}) {
                                      item->mutable_positions()->mutable_packed()->add_cu_seqlens(end);
                                    }
                                  })),
            bsd);
}

TEST(AddTest, PaddingIsZeroedWhereAskedFor) {
  TestServer server;
  const std::string bits("\0\0\1\1\1\1\1\0", 8);
  const Row table = Table(server, 4), x = Input(4);
  const auto item = [&](bool zero) {
    return Item(4, [&](auto* i) {
      SetMask(i, bits, 4);
      i->mutable_add()->set_zero_padding(zero);
    });
  };
  const Row zeroed = ApplyOne(server, item(true)), kept = ApplyOne(server, item(false));
  const int64_t positions[] = {0, 0, 0, 1, 0, 1, 2, 0};
  for (size_t v = 0; v < 8; ++v) {
    for (size_t c = 0; c < 4; ++c) {
      const float sum = x[v * 4 + c] + table[static_cast<size_t>(positions[v]) * 4 + c];
      EXPECT_EQ(kept[v * 4 + c], sum);
      EXPECT_EQ(zeroed[v * 4 + c], bits[v] != 0 ? sum : 0.0f);
    }
  }
}

// Dropout keeps the same elements whatever it is applied with, and the gradient goes where the values came from.
TEST(AddTest, DropoutAndItsGradientAgree) {
  TestServer server;
  const auto item = [&](bool backward) {
    return Item(50, [&](auto* i) {
      v1::AddOperation* add = i->mutable_add();
      add->set_scale(3);
      add->set_backward(backward);
      add->mutable_dropout()->set_probability(0.4);
      add->mutable_dropout()->set_seed(99);
    });
  };
  const Row table = Table(server, 50), x = Input(50);
  const Row y = ApplyOne(server, item(false)), gradient = ApplyOne(server, item(true));
  const float factor = static_cast<float>(1 / 0.6);
  int kept = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool is_kept = y[i] != 0;
    kept += is_kept;
    EXPECT_EQ(y[i], is_kept ? std::fma(3.0f, x[i], table[i % 200]) * factor : 0.0f);
    EXPECT_EQ(gradient[i], is_kept ? 3 * x[i] * factor : 0.0f);
  }
  EXPECT_NEAR(kept / static_cast<double>(x.size()), 0.6, 0.1);
}

// "A gate α·PE + (1 − α)·0 is no more than α·PE": ours is between two encodings.
TEST(AddTest, GatesAreScalarPerChannelOrPerPosition) {
  TestServer server;
  const Row a = Table(server, 3), b = Table(server, 3, 50), x = Input(3);
  const auto run = [&](const std::vector<int64_t>& shape, const Row& gate) {
    return ApplyOne(server, Item(3, [&](auto* item) {
                      v1::Gate* g = item->mutable_add()->mutable_gate();
                      g->mutable_other()->mutable_sinusoidal()->set_dim(4);
                      g->mutable_other()->mutable_sinusoidal()->set_base(50);
                      SetF32(g->mutable_gate(), shape, gate);
                    }));
  };
  const auto expect = [&](const Row& y, const std::function<float(size_t batch, size_t t, size_t c)>& gate) {
    for (size_t i = 0; i < y.size(); ++i) {
      const float g = gate(i / 12, i / 4 % 3, i % 4);
      EXPECT_EQ(y[i], x[i] + std::fma(g, a[i % 12], (1 - g) * b[i % 12])) << i;
    }
  };
  expect(run({}, {0.3f}), [](size_t, size_t, size_t) { return 0.3f; });
  const Row four = {0, 1, 0.25f, -2};
  expect(run({4}, four), [&](size_t, size_t, size_t c) { return four[c]; });
  const Row three = {0.1f, 0.2f, 0.9f};
  expect(run({3, 1}, three), [&](size_t, size_t t, size_t) { return three[t]; });
  const Row six = {0.1f, 0.2f, 0.9f, 1, 0, 0.5f};
  expect(run({2, 3, 1}, six), [&](size_t batch, size_t t, size_t) { return six[batch * 3 + t]; });
}

class OffsetsTest : public ::testing::Test {
 protected:
  // Rows of k = 3: first gets 100, 200, 300 and last 1000, 2000, 3000 in every channel. x and the encodings are taken off.
  Row Added(int64_t tokens, bool last, const std::function<void(v1::ApplyItem*)>& change = {}) {
    const auto item = [&](bool with) {
      return Item(tokens, [&](auto* i) {
        i->mutable_tensors(0)->set_data(std::string(static_cast<size_t>(2 * tokens * 16), '\0'));
        Row first, ends;
        for (int row = 1; row <= 3; ++row) {
          first.insert(first.end(), 4, static_cast<float>(100 * row));
          ends.insert(ends.end(), 4, static_cast<float>(1000 * row));
        }
        if (with) SetF32(i->mutable_add()->mutable_offsets()->mutable_first(), {3, 4}, first);
        if (with && last) SetF32(i->mutable_add()->mutable_offsets()->mutable_last(), {3, 4}, ends);
        if (change) change(i);
      });
    };
    const Row with = ApplyOne(server_, item(true)), without = ApplyOne(server_, item(false));
    Row added;
    for (size_t i = 0; i < with.size(); i += 4) added.push_back(std::round(with[i] - without[i]));
    return added;
  }

  TestServer server_;
};

TEST_F(OffsetsTest, FirstAndLastPositions) {
  const Row row = {100, 200, 300, 0, 1000, 2000, 3000};
  Row both = row;
  both.insert(both.end(), row.begin(), row.end());
  EXPECT_EQ(Added(7, true), both);
}

// Underspecified where it is usually told: with S < 2·k positions there are tokens at both ends. They get both.
TEST_F(OffsetsTest, ShortSequencesOverlap) {
  EXPECT_EQ(Added(4, true), (Row{100, 1200, 2300, 3000, 100, 1200, 2300, 3000}));
  EXPECT_EQ(Added(3, true), (Row{1100, 2200, 3300, 1100, 2200, 3300}));
  EXPECT_EQ(Added(2, true), (Row{2100, 3200, 2100, 3200}));  // the last row is the end's, whatever is missing before
  EXPECT_EQ(Added(1, true), (Row{3100, 3100}));
  EXPECT_EQ(Added(0, true), Row());
}

// Decoding: the place of a token is its position, not its index in the call; the end is not known, so there is no last.
TEST_F(OffsetsTest, DecodingGoesByPositions) {
  const auto at = [&](int64_t start, bool last, std::optional<int64_t> length = {}) {
    return Added(1, last, [=](auto* item) {
      item->mutable_positions()->mutable_range()->set_start(start);
      if (length) item->set_sequence_length(*length);
    });
  };
  EXPECT_EQ(at(2, false), (Row{300, 300}));
  EXPECT_EQ(at(3, false), (Row{0, 0}));  // an index in the call would have given 100
  EXPECT_EQ(at(1000, false), (Row{0, 0}));
  // With the length of the whole sequence the end is known.
  EXPECT_EQ(at(8, true, 10), (Row{2000, 2000}));
  EXPECT_EQ(at(6, true, 10), (Row{0, 0}));
}

TEST_F(OffsetsTest, EveryRowAndEveryPartOfAPackHasItsOwnEnd) {
  // Left padding of two, and none: lengths 3 and 5.
  const Row masked = Added(5, true, [](auto* item) { SetMask(item, std::string("\0\0\1\1\1\1\1\1\1\1", 10), 5); });
  EXPECT_EQ(masked, (Row{0, 0, 1100, 2200, 3300, 100, 200, 1300, 2000, 3000}));
  const Row packed = Added(4, true, [](auto* item) {
    item->set_layout(v1::LAYOUT_TD);
    item->mutable_tensors(0)->clear_shape();
    for (const int64_t extent : {8, 4}) item->mutable_tensors(0)->add_shape(extent);
    for (const int64_t end : {0, 1, 1, 8}) item->mutable_positions()->mutable_packed()->add_cu_seqlens(end);
  });
  EXPECT_EQ(packed, (Row{3100, 100, 200, 300, 0, 1000, 2000, 3000}));
}

TEST(AddTest, UploadedNumbersAreNumbers) {
  TestServer server;
  const auto item = [&](bool uploaded, const std::string& bytes) {
    return Item(3, [&](auto* i) {
      v1::Tensor* first = i->mutable_add()->mutable_offsets()->mutable_first();
      first->set_dtype(v1::DTYPE_F64);  // rounded once to f32
      first->add_shape(2);
      first->add_shape(4);
      if (uploaded) {
        first->mutable_upload()->set_sha256(Sha256(bytes));
      } else {
        first->set_data(bytes);
      }
    });
  };
  const std::string bytes = BytesOf(std::vector<double>{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8});
  grpc::ClientContext context;
  v1::UploadTensorResponse stored;
  const auto writer = server.position().UploadTensor(&context, &stored);
  v1::UploadTensorRequest request;
  request.set_size_bytes(static_cast<int64_t>(bytes.size()));
  request.set_data(bytes);
  writer->Write(request);
  writer->WritesDone();
  ASSERT_TRUE(writer->Finish().ok());
  const Row table = Table(server, 3), x = Input(3);
  const v1::ApplyResponse response = Apply(server, {item(true, bytes), item(false, bytes)});
  EXPECT_EQ(response.results(0).tensors(0).data(), response.results(1).tensors(0).data());
  EXPECT_EQ(response.results(0).fingerprint(), response.results(1).fingerprint());
  EXPECT_EQ(FloatsOf(response.results(0).tensors(0).data())[1], x[1] + (table[1] + 0.2f));
}

// Many tokens, types and both backends: one batch is what its items are alone.
TEST(AddTest, BatchesEqualSinglesAndBackendsAgree) {
  TestServer server;
  ServerOptions options = LoopbackOptions();
  options.backend = "reference";
  TestServer reference(options);
  std::vector<v1::ApplyItem> items;
  for (const v1::Dtype dtype : {v1::DTYPE_F64, v1::DTYPE_F32, v1::DTYPE_F16, v1::DTYPE_BF16}) {
    v1::ApplyItem item = Item(7, [&](auto* i) {
      i->mutable_spec()->mutable_sinusoidal()->set_position_offset(2);
      i->mutable_add()->set_scale_sqrt_dim(true);
      i->mutable_add()->set_scale_dtype(v1::DTYPE_BF16);
      i->mutable_add()->mutable_dropout()->set_probability(0.25);
      i->mutable_positions()->add_sequence_offsets(3);
      i->mutable_positions()->add_sequence_offsets(1000000);
      const int64_t bytes = dtype == v1::DTYPE_F64 ? 8 : dtype == v1::DTYPE_F32 ? 4 : 2;
      i->mutable_tensors(0)->set_dtype(dtype);
      i->mutable_tensors(0)->set_data(std::string(static_cast<size_t>(2 * 7 * 4 * bytes), '='));
    });
    items.push_back(item);
  }
  items.push_back(Item(300));
  items.push_back(Item(0));
  const v1::ApplyResponse batch = Apply(server, items), slow = Apply(reference, items);
  for (size_t i = 0; i < items.size(); ++i) {
    const auto& together = batch.results(static_cast<int>(i));
    const v1::ApplyResponse alone = Apply(server, {items[i]});
    EXPECT_EQ(together.tensors(0).data(), alone.results(0).tensors(0).data()) << i;
    EXPECT_EQ(together.tensors(0).data(), slow.results(static_cast<int>(i)).tensors(0).data()) << i;
    EXPECT_EQ(together.fingerprint(), alone.results(0).fingerprint());
    EXPECT_EQ(together.fingerprint(), slow.results(static_cast<int>(i)).fingerprint());
  }
}

}  // namespace
}  // namespace phasor::server
