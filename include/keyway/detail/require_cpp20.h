// Comes first in headers that use C++20: a compiler in an older mode says so here, instead of in the standard library.
#pragma once

#if !defined(__cpp_impl_coroutine) || !defined(__cpp_concepts)
#error "Keyway needs C++20: compile with -std=c++20 or later"
#endif
