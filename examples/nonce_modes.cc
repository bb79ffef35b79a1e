// One component, two modes, and no change where it is called: in basic mode calls are direct, in worker-queue mode those
// of one signer run one at a time, in the order they came.
//
//   nonce_modes [basic|worker-queue]          both, if none is given
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <keyway/keyed_calls.h>

namespace {

using keyway::Result;

using Nonce = std::uint64_t;
using Send = std::function<std::string(Nonce)>;  // gives the transaction's hash, or throws

// What those who need nonces know.
class Nonces {
 public:
  virtual ~Nonces() = default;
  virtual Result<Nonce> allocate(const std::string& signer) = 0;
  virtual Result<void> mark_used(const std::string& signer, Nonce nonce,
                                 const std::string& tx_hash) = 0;
  virtual Result<void> mark_recyclable(const std::string& signer, Nonce nonce) = 0;
  // Allocates a nonce, sends with it, and marks what became of it.
  virtual Result<std::string> with_nonce(const std::string& signer, const Send& send) = 0;
};

// Keeps them in memory. Correct by itself, as the database would be: what worker-queue mode adds is that the calls of a
// busy signer wait in line instead of fighting over its row.
class NonceTable final : public Nonces {
 public:
  Result<Nonce> allocate(const std::string& signer) override {
    const std::lock_guard lock(mutex_);
    Row& row = rows_[signer];
    const Nonce nonce = row.recyclable.empty() ? row.next++ : *row.recyclable.begin();
    row.recyclable.erase(nonce);
    row.reserved.insert(nonce);
    return nonce;
  }
  Result<void> mark_used(const std::string& signer, Nonce nonce,
                         const std::string& tx_hash) override {
    const std::lock_guard lock(mutex_);
    if (rows_[signer].reserved.erase(nonce) == 0) return not_reserved(signer, nonce);
    rows_[signer].used[nonce] = tx_hash;
    return {};
  }
  Result<void> mark_recyclable(const std::string& signer, Nonce nonce) override {
    const std::lock_guard lock(mutex_);
    if (rows_[signer].reserved.erase(nonce) == 0) return not_reserved(signer, nonce);
    rows_[signer].recyclable.insert(nonce);
    return {};
  }
  Result<std::string> with_nonce(const std::string& signer, const Send& send) override {
    const Result<Nonce> nonce = allocate(signer);
    if (!nonce) return nonce.error();
    std::string tx_hash;
    try {
      tx_hash = send(*nonce);
    } catch (...) {
      if (Result<void> marked = mark_recyclable(signer, *nonce); !marked) return marked.error();
      throw;
    }
    if (Result<void> marked = mark_used(signer, *nonce, tx_hash); !marked) return marked.error();
    return tx_hash;
  }

  std::size_t used(const std::string& signer) { return rows_[signer].used.size(); }

 private:
  struct Row {
    Nonce next = 0;
    std::set<Nonce> reserved;
    std::set<Nonce> recyclable;
    std::map<Nonce, std::string> used;
  };
  static keyway::Error not_reserved(const std::string& signer, Nonce nonce) {
    return {keyway::ErrorCode::kConflict,
            "nonce " + std::to_string(nonce) + " of " + signer + " is not reserved"};
  }

  std::mutex mutex_;
  std::map<std::string, Row> rows_;
};

// The decorator: every method goes through the signer's lane, if there are lanes.
class SerialNonces final : public Nonces {
 public:
  SerialNonces(Nonces& nonces, keyway::SerialMode mode)
      : nonces_(nonces), calls_(mode, {.workers = 8, .queue_capacity = 2000}) {}

  Result<Nonce> allocate(const std::string& signer) override {
    return calls_.call(signer, [&] { return nonces_.allocate(signer); });
  }
  Result<void> mark_used(const std::string& signer, Nonce nonce,
                         const std::string& tx_hash) override {
    return calls_.call(signer, [&] { return nonces_.mark_used(signer, nonce, tx_hash); });
  }
  Result<void> mark_recyclable(const std::string& signer, Nonce nonce) override {
    return calls_.call(signer, [&] { return nonces_.mark_recyclable(signer, nonce); });
  }
  Result<std::string> with_nonce(const std::string& signer, const Send& send) override {
    return calls_.call(signer, [&] { return nonces_.with_nonce(signer, send); });
  }

 private:
  Nonces& nonces_;
  keyway::KeyedCalls calls_;
};

// A caller: it knows Nonces, and not the mode.
void pay(Nonces& nonces, const std::string& signer) {
  const Nonce nonce = nonces.allocate(signer).value();
  if (!nonces.mark_used(signer, nonce, "0xpaid")) throw std::logic_error("lost a nonce");

  const Nonce given_up = nonces.allocate(signer).value();
  if (!nonces.mark_recyclable(signer, given_up)) throw std::logic_error("lost a nonce");

  const Result<std::string> sent = nonces.with_nonce(signer, [&](Nonce first) {
    // Another one for the same signer, inside: it does not wait for itself.
    const Nonce second = nonces.allocate(signer).value();
    if (!nonces.mark_used(signer, second, "0xinner")) throw std::logic_error("lost a nonce");
    return "0x" + std::to_string(first);
  });
  if (!sent) throw std::logic_error(sent.error().message);
}

bool run(keyway::SerialMode mode) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kPayments = 25;
  NonceTable table;
  SerialNonces nonces(table, mode);
  std::vector<std::jthread> threads;
  threads.reserve(kThreads);
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (std::size_t n = 0; n < kPayments; ++n) pay(nonces, "0xsigner");
    });
  }
  threads.clear();
  const std::size_t used = table.used("0xsigner");
  std::cout << to_string(mode) << ": " << used << " nonces used\n";
  return used == 3 * kThreads * kPayments;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<keyway::SerialMode> modes{keyway::SerialMode::kBasic,
                                        keyway::SerialMode::kWorkerQueue};
  if (argc > 1) {
    const Result<keyway::SerialMode> mode = keyway::parse_serial_mode(argv[1]);
    if (!mode) {
      std::cerr << "nonce_modes: " << mode.error().message << '\n';
      return 2;
    }
    modes = {*mode};
  }
  for (const keyway::SerialMode mode : modes) {
    if (!run(mode)) return 1;
  }
}
