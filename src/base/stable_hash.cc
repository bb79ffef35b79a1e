#include "base/stable_hash.h"

#include <bit>
#include <cstring>

namespace keyway {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

namespace {

using State = std::array<std::uint64_t, 4>;

// The bytes 0 to 15.
constexpr std::uint64_t kKeyLow = 0x0706050403020100;
constexpr std::uint64_t kKeyHigh = 0x0f0e0d0c0b0a0908;

void mix(State& v, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    v[0] += v[1];
    v[1] = std::rotl(v[1], 13) ^ v[0];
    v[0] = std::rotl(v[0], 32);
    v[2] += v[3];
    v[3] = std::rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = std::rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = std::rotl(v[1], 17) ^ v[2];
    v[2] = std::rotl(v[2], 32);
  }
}

}  // namespace

StableHash::StableHash()
    : state_{kKeyLow ^ 0x736f6d6570736575, kKeyHigh ^ 0x646f72616e646f6d ^ 0xee,
             kKeyLow ^ 0x6c7967656e657261, kKeyHigh ^ 0x7465646279746573} {}

void StableHash::add_word(std::uint64_t word) {
  state_[3] ^= word;
  mix(state_, 2);
  state_[0] ^= word;
}

void StableHash::add(std::string_view text) {
  const auto add_byte = [this](char byte) {
    begun_ |= std::uint64_t{static_cast<unsigned char>(byte)} << (8 * (added_ % 8));
    if (++added_ % 8 != 0) return;
    add_word(begun_);
    begun_ = 0;
  };
  while (!text.empty() && added_ % 8 != 0) {
    add_byte(text.front());
    text.remove_prefix(1);
  }
  for (; text.size() >= 8; text.remove_prefix(8), added_ += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    add_word(word);
  }
  for (const char byte : text) add_byte(byte);
}

void StableHash::add_number(std::uint64_t number) {
  char bytes[8];
  std::memcpy(bytes, &number, 8);
  add({bytes, 8});
}

StableHash::Value StableHash::value() const {
  StableHash end = *this;
  end.add_word(begun_ | (std::uint64_t{added_} << 56));
  State& v = end.state_;
  Value value;
  v[2] ^= 0xee;
  mix(v, 4);
  value.low = v[0] ^ v[1] ^ v[2] ^ v[3];
  v[1] ^= 0xdd;
  mix(v, 4);
  value.high = v[0] ^ v[1] ^ v[2] ^ v[3];
  return value;
}

std::string StableHash::hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const Value hash = value();
  std::string text;
  for (std::uint64_t word : {hash.low, hash.high}) {
    for (int i = 0; i < 8; ++i, word >>= 8) {
      text += kDigits[(word >> 4) & 15];
      text += kDigits[word & 15];
    }
  }
  return text;
}

}  // namespace keyway
