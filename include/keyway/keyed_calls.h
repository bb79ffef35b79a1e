// Calls by key in a mode that configuration chooses: direct, or one at a time for each key. A component is wrapped once,
// where things are put together; those who call it do not know.
//
//   class SerialNonces final : public Nonces {               // Nonces: what the callers know
//    public:
//     SerialNonces(Nonces& nonces, SerialMode mode) : nonces_(nonces), calls_(mode) {}
//     Result<Nonce> allocate(const std::string& signer) override {
//       return calls_.call(signer, [&] { return nonces_.allocate(signer); });
//     }
//     ...
//
// The whole of it is examples/nonce_modes.cc.
//
// Guarantees:
//   (1) kBasic: call() calls; there is no dispatcher, and no thread.
//   (2) kWorkerQueue: call() is SerialDispatcher::run(), with all that is promised there: a wrapped method may call
//       another one for the same key.
//   (3) In both modes the same call gives a Result of the same type, throws what the work throws, and refuses an
//       empty key.
//
// Thread safety: every method from any thread.
// Lifetime: that of its dispatcher.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <functional>
#include <optional>
#include <stop_token>
#include <string_view>
#include <type_traits>
#include <utility>

#include "keyway/serial_dispatcher.h"

namespace keyway {

enum class SerialMode { kBasic, kWorkerQueue };

const char* to_string(SerialMode mode);
// "basic" or "worker-queue"; otherwise an error (kInvalidArgument) that says so.
Result<SerialMode> parse_serial_mode(std::string_view text);

class KeyedCalls {
 public:
  // Throws Exception (kInvalidArgument) for options out of range, in either mode.
  explicit KeyedCalls(SerialMode mode, SerialOptions options = {});

  template <TaskCallable F>
    requires detail::ReturnsNoReference<F>
  SerialResult<F> call(std::string_view key, F&& work) {
    using Callable = std::decay_t<F>;
    using Value = detail::TaskValue<Callable>;
    static_assert(
        !detail::kIsCoroutine<Callable>,
        "a coroutine needs a scheduler, and basic mode has none: give it to a SerialDispatcher");
    if (dispatcher_) return dispatcher_->run(key, std::forward<F>(work));
    detail::require_key(key, "key");
    detail::require_callable(work, key, {});
    const auto invoke = [&]() -> Value {
      if constexpr (detail::kTakesStopToken<Callable>) {
        return std::invoke(work, std::stop_token());
      } else {
        return std::invoke(work);
      }
    };
    if constexpr (std::is_void_v<Value>) {
      invoke();
      return {};
    } else {
      return invoke();
    }
  }

  // For its statistics and its shutdown; null in basic mode.
  SerialDispatcher* dispatcher() { return dispatcher_ ? &*dispatcher_ : nullptr; }

 private:
  std::optional<SerialDispatcher> dispatcher_;
};

}  // namespace keyway
