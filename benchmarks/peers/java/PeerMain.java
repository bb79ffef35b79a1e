import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.Callable;

/**
 * Runs one workload in a fresh JVM and prints one line of JSON. A JVM needs warming up, so the
 * workload runs several times, each on a new peer, and the medians of the last runs are reported;
 * {@code cold_ms} is that of the very first run.
 */
public final class PeerMain {
  private PeerMain() {}

  public static void main(String[] args) throws Exception {
    Options options;
    try {
      options = new Options(args);
    } catch (IllegalArgumentException e) {
      System.err.println(e.getMessage() + "\n\n" + Options.USAGE);
      System.exit(2);
      return;
    }
    Callable<Map<String, Object>> workload = makeWorkload(options);
    List<Map<String, Object>> runs = new ArrayList<>();
    for (int i = 0; i < options.repeat; i++) {
      runs.add(workload.call());
      System.gc(); // what the run before left behind is not this run's cost
    }
    System.out.println(toJson(options, runs));
  }

  private static Callable<Map<String, Object>> makeWorkload(Options options) {
    if (options.workload.equals("w5")) {
      LockWorkload locks = new LockWorkload(options);
      return locks::run;
    }
    Workloads tasks = new Workloads(options);
    return () -> {
      try (KeyedPeer peer = makePeer(options)) {
        return tasks.run(peer);
      }
    };
  }

  private static KeyedPeer makePeer(Options options) {
    if (options.peer.startsWith("java_three_layer")) {
      return new ThreeLayerPeer(options.limit);
    }
    if (options.peer.startsWith("java_plain")) {
      return new PlainPeer(options.limit);
    }
    throw new IllegalArgumentException("unknown peer: " + options.peer);
  }

  private static String toJson(Options options, List<Map<String, Object>> runs) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("peer", options.peer);
    line.put("workload", options.workload);
    line.put("submitters", options.submitters);
    line.put("tasks", options.tasks);
    line.put("keys", options.keys);
    line.put("limit", options.limit);
    line.put("runs_in_process", runs.size());
    List<Map<String, Object>> measured =
        runs.subList(runs.size() - options.measured, runs.size());
    for (String name : runs.get(0).keySet()) {
      line.put(name, name.equals("cold_ms") ? runs.get(0).get(name) : summary(measured, name));
    }
    StringJoiner fields = new StringJoiner(",", "{", "}");
    line.forEach((name, value) -> fields.add('"' + name + "\":" + toJson(value)));
    return fields.toString();
  }

  /** The median of figures; of yes or no, whether all are yes. */
  private static Object summary(List<Map<String, Object>> runs, String name) {
    if (runs.get(0).get(name) instanceof Boolean) {
      return runs.stream().allMatch(run -> (Boolean) run.get(name));
    }
    double[] sorted = runs.stream().mapToDouble(run -> (Double) run.get(name)).sorted().toArray();
    int middle = sorted.length / 2;
    return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }

  private static String toJson(Object value) {
    if (value instanceof Double number) {
      return String.format(Locale.ROOT, "%.1f", number);
    }
    return value instanceof String ? "\"" + value + "\"" : String.valueOf(value);
  }
}
