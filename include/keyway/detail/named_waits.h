// when_any(), when_all() and with_timeout() for task handles and for lock_async(): see keyway/when_any.h.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "keyway/detail/wait_of.h"
#include "keyway/task.h"
#include "keyway/when_any.h"

namespace keyway {

namespace detail {

template <class A>
using WaitFor = WaitOf<std::remove_cvref_t<A>>;
template <class A>
using AwaitedValue = typename WaitFor<A>::Value;

// What is not a Task must outlive the wait: it may be awaited again after a timeout. And g++ 12 would destroy a
// temporary of the co_await expression twice.
template <class A>
constexpr void require_name() {
  static_assert(kIsTask<A> || std::is_lvalue_reference_v<A>,
                "name it first: auto handle = ...; co_await with_timeout(1s, handle)");
}

template <std::size_t... I, class... W, class Held>
WhenAny<typename W::Value...> end_winner(std::index_sequence<I...>, std::tuple<W...>& waits,
                                         Held first) {
  using First = WhenAny<typename W::Value...>;
  std::optional<First> ended;
  const auto end = [&]<std::size_t Index>(std::in_place_index_t<Index> place) {
    if (Index != first.index) return;
    auto& held = std::get<Index>(first.value);
    ended.emplace(
        First{Index, decltype(First::value)(place, std::get<Index>(waits).end(std::move(held)))});
  };
  (end(std::in_place_index<I>), ...);
  return *std::move(ended);
}

template <class... W>
Task<WhenAny<typename W::Value...>> any_of(std::tuple<W...> waits) {
  auto race = std::apply([](W&... each) { return when_any(each.begin()...); }, waits);
  auto first = co_await std::move(race);
  co_return end_winner(std::index_sequence_for<W...>(), waits, std::move(first));
}

template <class... W>
Task<std::tuple<typename W::Value...>> all_of(std::tuple<W...> waits) {
  auto all = std::apply([](W&... each) { return when_all(each.begin()...); }, waits);
  auto held = co_await std::move(all);
  const auto end = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tuple<typename W::Value...>{
        std::get<I>(waits).end(std::get<I>(std::move(held)))...};
  };
  co_return end(std::index_sequence_for<W...>());
}

}  // namespace detail

template <class... A>
  requires(detail::TaskOrHasWait<A> && ...) && (!detail::kIsTask<A> || ...)
auto when_any(A&&... awaited) -> Task<WhenAny<detail::AwaitedValue<A>...>> {
  (detail::require_name<A>(), ...);
  return detail::any_of(
      std::tuple<detail::WaitFor<A>...>(detail::WaitFor<A>(std::forward<A>(awaited))...));
}

template <detail::HasWait A>
  requires(!detail::kIsTask<A>)
auto when_any(std::vector<A>& awaited) -> Task<WhenAnyOf<detail::AwaitedValue<A>>> {  // NOLINT
  std::vector<decltype(detail::WaitFor<A>(awaited.front()).begin())> waits;
  for (A& one : awaited) waits.push_back(detail::WaitFor<A>(one).begin());
  auto race = when_any(std::move(waits));
  auto first = co_await std::move(race);
  co_return WhenAnyOf<detail::AwaitedValue<A>>{
      first.index, detail::WaitFor<A>(awaited[first.index]).end(std::move(first.value))};
}

template <class... A>
  requires(detail::TaskOrHasWait<A> && ...) && (!detail::kIsTask<A> || ...)
auto when_all(A&&... awaited) -> Task<std::tuple<detail::AwaitedValue<A>...>> {
  (detail::require_name<A>(), ...);
  return detail::all_of(
      std::tuple<detail::WaitFor<A>...>(detail::WaitFor<A>(std::forward<A>(awaited))...));
}

template <detail::HasWait A>
  requires(!detail::kIsTask<A>)
auto when_all(std::vector<A>& awaited) -> Task<std::vector<detail::AwaitedValue<A>>> {  // NOLINT
  std::vector<decltype(detail::WaitFor<A>(awaited.front()).begin())> waits;
  for (A& one : awaited) waits.push_back(detail::WaitFor<A>(one).begin());
  auto all = when_all(std::move(waits));
  auto held = co_await std::move(all);
  std::vector<detail::AwaitedValue<A>> values;
  values.reserve(held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    values.push_back(detail::WaitFor<A>(awaited[i]).end(std::move(held[i])));
  }
  co_return values;
}

namespace detail {

template <class W>
Task<typename W::Value> end_within(Duration timeout, W wait) {
  auto begun = wait.begin();
  using Held = NonVoid<typename decltype(begun)::value_type>;
  std::optional<Held> held;
  try {
    auto bounded = with_timeout(timeout, std::move(begun));
    if constexpr (std::is_void_v<typename decltype(begun)::value_type>) {
      co_await std::move(bounded);
      held.emplace();
    } else {
      held.emplace(co_await std::move(bounded));
    }
  } catch (const TimeoutError&) {
    wait.timed_out(timeout);
    if constexpr (std::is_default_constructible_v<Held>) held.emplace();
  }
  co_return wait.end(*std::move(held));
}

}  // namespace detail

template <class A>
  requires detail::HasWait<A> && (!detail::kIsTask<A>)
auto with_timeout(Duration timeout, A&& awaited) -> Task<detail::AwaitedValue<A>> {
  detail::require_name<A>();
  return detail::end_within(timeout, detail::WaitFor<A>(std::forward<A>(awaited)));
}

}  // namespace keyway
