import java.util.Map;

/** The command line of the C++ peers, plus --peer, --repeat and --measured. */
final class Options {
  static final String USAGE =
      """
      usage: PeerMain WORKLOAD [--peer java_three_layer|java_plain|java_lock_map] [--submitters N]
                      [--tasks N] [--keys K] [--limit L] [--repeat R] [--measured M]
      workloads: w1 w2 w3 w4 backlog w6, and w5 of java_lock_map
      The workload runs R times in this process (5); the median of the last M runs (3) is reported.
      The peer's name may have a suffix, such as _g1: it is only repeated in the output.
      """;

  /** A workload's tasks, keys and limit unless the command line says otherwise. */
  private static final Map<String, int[]> SIZES =
      Map.of(
          "w1", new int[] {1_000_000, 1_000, 4},
          "w2", new int[] {1_000_000, 1, 1},
          "w3", new int[] {1_000_000, 1_000_000, 4},
          "w4", new int[] {10_000, 100, 10},
          "backlog", new int[] {1_000_000, 1_000, 4},
          "w5", new int[] {2_000_000, 1_000, 1},
          "w6", new int[] {20_000, 1, 1});

  final String workload;
  String peer = "java_three_layer";
  int submitters = 1;
  int tasks;
  int keys;
  int limit;
  int repeat = 5;
  int measured = 3;

  Options(String[] words) {
    int[] sizes = words.length == 0 ? null : SIZES.get(words[0]);
    if (sizes == null || words.length % 2 == 0) {
      throw new IllegalArgumentException("a workload, then pairs of option and value");
    }
    workload = words[0];
    tasks = sizes[0];
    keys = sizes[1];
    limit = sizes[2];
    for (int i = 1; i < words.length; i += 2) {
      set(words[i], words[i + 1]);
    }
    if (workload.equals("w3")) {
      keys = tasks;
    }
    if (workload.equals("w5") != peer.startsWith("java_lock_map")) {
      throw new IllegalArgumentException("w5 is for java_lock_map, and java_lock_map for w5");
    }
    measured = Math.min(measured, repeat);
  }

  private void set(String option, String value) {
    switch (option) {
      case "--peer" -> peer = value;
      case "--submitters" -> submitters = count(option, value);
      case "--tasks" -> tasks = count(option, value);
      case "--keys" -> keys = count(option, value);
      case "--limit" -> limit = count(option, value);
      case "--repeat" -> repeat = count(option, value);
      case "--measured" -> measured = count(option, value);
      default -> throw new IllegalArgumentException("unknown option: " + option);
    }
  }

  private static int count(String option, String value) {
    int count = Integer.parseInt(value);
    if (count < 1) {
      throw new IllegalArgumentException(option + ": not a count from 1: " + value);
    }
    return count;
  }
}
