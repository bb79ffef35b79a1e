import java.util.Map;
import java.util.function.ToIntFunction;

/** Limits of a {@link ThreeLayerExecutor}: a group's own, else the resolver's, else the default. */
record GroupPolicy(
    Map<String, Integer> perGroupMaxConcurrency,
    ToIntFunction<String> concurrencyResolver,
    int defaultMaxConcurrency,
    Map<String, Integer> perGroupMaxInFlight,
    int defaultMaxInFlight,
    int globalMaxInFlight,
    Map<String, Integer> perGroupQueueThreshold,
    int defaultQueueThreshold,
    int globalQueueThreshold) {

  static final int UNLIMITED = Integer.MAX_VALUE;

  /** Only the concurrency of each group is limited. */
  static GroupPolicy ofConcurrency(int limit) {
    return new GroupPolicy(
        Map.of(), null, limit, Map.of(), UNLIMITED, UNLIMITED, Map.of(), UNLIMITED, UNLIMITED);
  }

  int resolveConcurrency(String groupKey) {
    Integer own = perGroupMaxConcurrency.get(groupKey);
    if (own != null) {
      return Math.max(1, own);
    }
    if (concurrencyResolver != null) {
      try {
        return Math.max(1, concurrencyResolver.applyAsInt(groupKey));
      } catch (RuntimeException e) {
        return defaultMaxConcurrency;
      }
    }
    return defaultMaxConcurrency;
  }

  int resolveMaxInFlight(String groupKey) {
    return Math.max(1, perGroupMaxInFlight.getOrDefault(groupKey, defaultMaxInFlight));
  }

  int resolveQueueThreshold(String groupKey) {
    return perGroupQueueThreshold.getOrDefault(groupKey, defaultQueueThreshold);
  }
}
