// A hash that is the same in every process, on every machine and in every version: for what is stored. It is SipHash-2-4
// with 128 bits, under a key that everybody knows: two texts do not have the same by accident, and hardly by intent.
//
//   StableHash hash;
//   hash.add(text);
//   hash.add_number(7);
//   hash.hex()               // 32 digits
//
// Where keys are looked up, hash_key() is several times faster, and other in each process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace keyway {

class StableHash {
 public:
  StableHash();

  // Texts that are added one after the other are as one text.
  void add(std::string_view text);
  void add_number(std::uint64_t number);

  // What all that was added makes; more may be added.
  struct Value {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    bool operator==(const Value&) const = default;
  };
  Value value() const;
  std::string hex() const;

 private:
  void add_word(std::uint64_t word);

  std::array<std::uint64_t, 4> state_;
  std::uint64_t begun_ = 0;  // the bytes that make no whole word yet
  std::size_t added_ = 0;
};

}  // namespace keyway
