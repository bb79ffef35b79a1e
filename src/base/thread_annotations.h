// Names for clang's thread-safety analysis; nothing for other compilers.
#pragma once

#if defined(__clang__)
#define KEYWAY_ATTRIBUTE(x) __attribute__((x))
#else
#define KEYWAY_ATTRIBUTE(x)
#endif

#define KEYWAY_CAPABILITY(name) KEYWAY_ATTRIBUTE(capability(name))
#define KEYWAY_SCOPED_CAPABILITY KEYWAY_ATTRIBUTE(scoped_lockable)
#define KEYWAY_GUARDED_BY(mutex) KEYWAY_ATTRIBUTE(guarded_by(mutex))
#define KEYWAY_REQUIRES(...) KEYWAY_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define KEYWAY_ACQUIRED_AFTER(...) KEYWAY_ATTRIBUTE(acquired_after(__VA_ARGS__))
#define KEYWAY_EXCLUDES(...) KEYWAY_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define KEYWAY_ACQUIRE(...) KEYWAY_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define KEYWAY_RELEASE(...) KEYWAY_ATTRIBUTE(release_capability(__VA_ARGS__))
#define KEYWAY_TRY_ACQUIRE(...) KEYWAY_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define KEYWAY_NO_THREAD_SAFETY_ANALYSIS KEYWAY_ATTRIBUTE(no_thread_safety_analysis)
